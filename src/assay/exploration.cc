// Tested by the end-to-end tests.
// SPDX-License-Identifier: Apache-2.0
#include "assay/exploration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "assay/address_runs.h"
#include "assay/contract.h"
#include "assay/explored_shapes.h"
#include "assay/judging_state.h"
#include "assay/own_part.h"
#include "assay/rounding_alone.h"
#include "assay/trial.h"
#include "assay/work_kind.h"
#include "base/name_some.h"
#include "base/random.h"
#include "base/text.h"
#include "task/explored.h"

namespace cupel::assay {
namespace {

using task::ExploredSize;

constexpr const char* kExplored = "explored-";  // ids of settings
/// A reference that loops over the data may take minutes at sizes that no one asked for.
constexpr int kReferenceSeconds = 10;
constexpr size_t kNamedSizes = 4;  // in notes
constexpr size_t kMostJudged = 20, kMostKinds = 10, kMostBoundaries = 4;
/// Settings in which several sizes differ: those that are judged, and drawn for each of them, since
/// the task's reference refuses some.
constexpr size_t kMostJoint = 12, kDrawnForOne = 3, kMostJointOfPrograms = 2;
constexpr int64_t kMostElements = 1 << 20;           // of all arguments of a call that is judged
constexpr int64_t kFewElements = 1 << 12;            // a kernel that is slow with these hangs
constexpr uint64_t kMostBytes = uint64_t{48} << 30;  // of all arguments of a call that is recorded
constexpr uint64_t kResidues = 32;
constexpr int kMostSteps = 24;         // of a search for the size from which launches fail
constexpr size_t kMostRefusals = 150;  // each costs a new process
constexpr uint64_t kMostPlanBytes = uint64_t{256} << 20;   // of all recorded plans
constexpr uint64_t kMostBufferBytes = uint64_t{64} << 20;  // of a call that is judged
constexpr size_t kMostNodes = 256;                         // of the plan of such a call
constexpr uint64_t kMostBlocks = 1 << 14;                  // of all its launches
constexpr std::chrono::seconds kRecordingDeadline{120};    // hostile host code may be slow
constexpr size_t kMostLimits = 6, kMostOptions = 8;
constexpr size_t kMostAddressRuns = 8;
constexpr size_t kSizesOfPrograms = 12;

/// A size, and what the candidate requests there.
struct Seen {
  ExploredSize size;
  std::vector<task::Value> args;
  std::optional<plan::Plan> plan;
  build::Images images;
  record::Refusal refusal;  // without a plan
  std::string kind;         // of work; empty without a plan
};

/// Records as a survey does, for settings of which only one trial is judged.
class Quick final : public record::CallRecorder {
 public:
  explicit Quick(record::CallRecorder& recorder) : recorder_(recorder) {}
  Result<record::Outcome> Record(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) override {
    return recorder_.Survey(function, args, setting);
  }
  Result<record::Outcome> Survey(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) override {
    return recorder_.Survey(function, args, setting);
  }
  Result<std::variant<std::monostate, record::Refusal>> Recheck() override {
    return std::variant<std::monostate, record::Refusal>();
  }
  const os::SandboxReport& sandbox() const override { return recorder_.sandbox(); }

 private:
  record::CallRecorder& recorder_;
};

uint64_t BytesOf(const std::vector<task::Value>& args) {
  uint64_t bytes = 0;
  for (const auto& storage : task::StoragesOf(args)) bytes += storage.size();
  return bytes;
}

int64_t ElementsOf(const std::vector<task::Value>& args) {
  int64_t elements = 0;
  for (const task::Tensor* tensor : task::TensorLeaves(args)) elements += tensor->numel();
  return elements;
}

int64_t LargestOf(const std::vector<task::Value>& args) {
  int64_t largest = 0;
  for (const task::Tensor* tensor : task::TensorLeaves(args)) {
    largest = std::max(largest, tensor->numel());
  }
  return largest;
}

/// Whether the refusal is about the size alone: the launch is illegal, or the host code says so.
bool IsLaunch(const record::Refusal& refusal) { return refusal.code == "illegal_launch"; }

/// The described device would have too little memory for the results.
bool IsOutOfMemory(const record::Refusal& refusal) {
  return refusal.message.starts_with("CUDA out of memory");
}

/// True for errors that only say that the task's code does not work, or is slow, without data.
bool IsOfShapes(const Error& error) {
  return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kTimeout;
}

/// Host code sees the values of some tensors, which are zeros in a survey.
bool HasValues(const std::vector<task::Value>& args) {
  return std::ranges::any_of(task::TensorLeaves(args),
                             [](const task::Tensor* tensor) { return task::HostMayRead(*tensor); });
}

/// Of what a plan keeps in memory, about.
uint64_t PlanBytes(const plan::Plan& plan) {
  uint64_t bytes = 512 * plan.nodes.size();
  for (const plan::Node& node : plan.nodes) {
    if (const auto* upload = std::get_if<plan::Upload>(&node.work)) bytes += upload->bytes.size();
    if (const auto* launch = std::get_if<plan::Launch>(&node.work)) {
      bytes += launch->parameters.size();
    }
  }
  return bytes;
}

uint64_t BufferBytes(const plan::Plan& plan) {
  uint64_t bytes = 0;
  for (const plan::Buffer& buffer : plan.buffers) bytes += std::min(buffer.bytes, kMostBufferBytes);
  return bytes;
}

uint64_t BlocksOf(const plan::Plan& plan) {
  uint64_t blocks = 0;
  for (const plan::Node& node : plan.nodes) {
    if (const auto* launch = std::get_if<plan::Launch>(&node.work)) blocks += launch->grid.Count();
  }
  return blocks;
}

template <class T>
void AddOnce(std::vector<T>& list, const std::type_identity_t<T>& item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

class Explorer {
 public:
  Explorer(const Candidate& candidate, const Question& question, const Parts& parts,
           const Explored& explored, records::Verdict& verdict)
      : candidate_(candidate),
        question_(question),
        parts_(parts),
        explored_(explored),
        random_(Random(explored.seed).Fork("exploration")),
        verdict_(verdict) {
    question_.trials = 1;
    question_.shadows = question_.integers = false;
    question_.distributions.clear();
    if (!question_.seed) question_.seed = explored.seed;  // so that the verdict can be repeated
  }

  Status Run() {
    TRY_ASSIGN(const bool has_shapes, FindShapes());
    if (!has_shapes) return {};
    TRY_ASSIGN(state_, JudgingState::Open(candidate_, question_, parts_, explored_.seed));
    TRY(RecordAll());
    CountKinds();
    // The recorder may have kept workspaces of the largest sizes: judged calls need a new one.
    TRY_ASSIGN(state_, JudgingState::Open(candidate_, question_, parts_, explored_.seed));
    TRY_ASSIGN(const bool right, JudgeMembers());
    if (!right) return {};
    TRY(JudgeOptions());
    TRY(LimitLaunches());
    return CheckAddresses();
  }

  void MoveLaunched(std::set<std::string>& launched) const {
    if (state_) launched.insert(state_->launched.begin(), state_->launched.end());
  }

 private:
  records::Exploration& result() { return verdict_.exploration; }
  std::string function() const { return std::string(task::Name(question_.direction)); }

  /// The sizes to record: those that are explored, the judged settings, the task's own settings if
  /// they were reduced, and large ones.
  Result<bool> FindShapes() {
    const auto direction = static_cast<size_t>(question_.direction);
    const task::Task& task = *question_.task;
    const std::vector<task::Setting>& listed =
        task.listed[direction].empty() ? task.settings[direction] : task.listed[direction];
    std::vector<ExploredSize> judged, own;
    for (const task::Setting* setting : explored_.settings)
      judged.push_back({*setting, "", 0, false});
    for (const task::Setting& setting : listed) {
      if (setting.derived.empty()) own.push_back({setting, "", 0, false});
    }
    TRY(AddShapes(judged, &Explorer::covered_));
    if (!result().note.empty()) return false;
    const std::vector<ExploredSize> sizes =
        task::ExploredSizes(WithDefaults(task.settings[direction]), WithDefaults(listed));
    if (sizes.empty()) {
      result().note = "the task names no sizes that could vary";
      return false;
    }
    TRY(AddShapes(own, &Explorer::own_seen_));
    TRY(AddShapes(sizes, &Explorer::seen_));
    if (seen_.empty() && result().note.empty()) {
      result().note = "no call could be made without data: the task's sizes may follow from values";
    }
    if (candidate_.images() == nullptr) KeepSome();
    if (!own_seen_.empty()) {
      const Seen& first = own_seen_.front();
      const std::vector<task::Setting> setting = WithDefaults({first.size.setting});
      TRY(AddShapes(task::LargeSizes(setting.front(), LargestOf(first.args)), &Explorer::seen_));
    }
    return true;
  }

  /// Settings with the sizes that they leave to the task's signatures.
  std::vector<task::Setting> WithDefaults(std::vector<task::Setting> settings) const {
    for (task::Setting& setting : settings) {
      Json init = default_init_, inputs = default_inputs_;
      init.update(setting.init);
      inputs.update(setting.inputs);
      setting.init = std::move(init);
      setting.inputs = std::move(inputs);
    }
    return settings;
  }

  std::vector<task::Setting> JudgedSettings() const {
    std::vector<task::Setting> settings;
    settings.reserve(explored_.settings.size());
    for (const task::Setting* setting : explored_.settings) settings.push_back(*setting);
    return WithDefaults(std::move(settings));
  }

  /// If the oracle cannot tell, the note says why.
  Status AddShapes(const std::vector<ExploredSize>& sizes, std::vector<Seen> Explorer::* into) {
    parts_.Show({"varying sizes", 0, std::nullopt, "sizes"});
    auto shapes = ShapesAt(*parts_.oracle, *question_.task, question_.direction, sizes);
    if (!shapes) {
      if (!IsOfShapes(shapes.error())) return tl::unexpected(shapes.error());
      result().note = shapes.error().message;
      return {};
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto& shape = (*shapes)[i];
      if (!shape || BytesOf(shape->args) > kMostBytes || !IsClaimed(sizes[i].setting)) continue;
      default_init_.update(shape->default_init);
      default_inputs_.update(shape->default_inputs);
      Seen seen;
      seen.size = sizes[i];
      seen.args = std::move(shape->args);
      (this->*into).push_back(std::move(seen));
    }
    return {};
  }

  bool IsClaimed(const task::Setting& setting) const {
    return explored_.declaration.IsEmpty() || explored_.declaration.Covers(setting);
  }

  /// A Python program may compile kernels at each size, which takes seconds.
  void KeepSome() {
    if (seen_.size() <= kSizesOfPrograms) return;
    const size_t all = seen_.size();
    std::stable_partition(seen_.begin(), seen_.end(), &IsJudgeable);
    const auto small = static_cast<size_t>(std::ranges::count_if(seen_, &IsJudgeable));
    std::vector<Seen> kept(std::make_move_iterator(seen_.begin()),
                           std::make_move_iterator(seen_.begin() + static_cast<ptrdiff_t>(small)));
    random_.Shuffle(kept);
    kept.resize(std::min(kept.size(), kSizesOfPrograms));
    seen_ = std::move(kept);
    result().note = fmt::format("{} of {} were tried: a program may compile kernels at each",
                                seen_.size(), all);
  }

  Status RecordAll() {
    const auto by_bytes = [](const Seen& a, const Seen& b) {
      return BytesOf(a.args) < BytesOf(b.args);
    };
    std::stable_sort(seen_.begin(), seen_.end(), by_bytes);
    int done = 0;
    size_t left_out = 0;
    const auto until = std::chrono::steady_clock::now() + kRecordingDeadline;
    const auto total = static_cast<int>(covered_.size() + own_seen_.size() + seen_.size());
    for (std::vector<Seen>* list : {&covered_, &own_seen_, &seen_}) {
      for (Seen& seen : *list) {
        if (parts_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
        parts_.Show({"recording at other sizes", ++done, total, "sizes"});
        const bool is_large = LargestOf(seen.args) > INT32_MAX;
        const bool is_enough = (refusals_ > kMostRefusals && !is_large) ||
                               plan_bytes_ > kMostPlanBytes ||
                               std::chrono::steady_clock::now() > until;
        if (is_enough && list == &seen_) {
          ++left_out;
          continue;
        }
        TRY(RecordOne(seen));
      }
    }
    if (left_out > 0) {
      AddNote(fmt::format(
          "{} of {} were left out: host code refuses many, or is slow, or requests much "
          "work",
          left_out, seen_.size()));
    }
    std::erase_if(seen_, [](const Seen& seen) { return !seen.plan && seen.refusal.code.empty(); });
    result().recorded = static_cast<int>(seen_.size());
    return {};
  }

  Status RecordOne(Seen& seen) {
    TRY_ASSIGN(record::Outcome outcome,
               state_->recorder().Survey(function(), seen.args, seen.size.setting));
    if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
      ++refusals_;
      if (IsOutOfMemory(*refusal)) return {};
      seen.refusal = std::move(*refusal);
      return {};
    }
    auto& recording = std::get<record::Recording>(outcome);
    seen.images = std::move(recording.images);
    seen.plan = std::move(recording.plan);
    plan_bytes_ += PlanBytes(*seen.plan);
    kinds_.Add(*seen.plan);
    return {};
  }

  void CountKinds() {
    for (std::vector<Seen>* list : {&covered_, &own_seen_, &seen_}) {
      for (Seen& seen : *list) {
        if (seen.plan) seen.kind = kinds_.Of(*seen.plan);
      }
    }
    for (const Seen& seen : covered_) known_.insert(seen.kind);
    std::set<std::string> kinds = known_;
    for (const Seen& seen : seen_) kinds.insert(seen.kind);
    kinds.erase("");
    result().kinds = static_cast<int>(kinds.size());
  }

  /// Whether a case of this size is small enough to judge. Host code that fails is judged too, so
  /// that its failure gets a reason.
  static bool IsJudgeable(const Seen& seen) {
    const record::Refusal& refusal = seen.refusal;
    const bool is_slow =
        refusal.code == "host_timeout" || refusal.message.find("too large") != std::string::npos;
    return seen.size.is_small && !IsLaunch(refusal) && refusal.code != "host_exception" &&
           !refusal.unsupported && !is_slow && ElementsOf(seen.args) > 0 &&
           ElementsOf(seen.args) <= kMostElements &&
           (!seen.plan ||
            (BufferBytes(*seen.plan) < kMostBufferBytes && seen.plan->nodes.size() <= kMostNodes &&
             BlocksOf(*seen.plan) <= kMostBlocks));
  }

  /// One size of each kind of work that no setting has, both sides of boundaries between kinds, and
  /// others that together have many remainders of division by 32.
  std::vector<const Seen*> ChooseMembers() {
    std::vector<const Seen*> small, chosen;
    for (const Seen& seen : seen_) {
      if (IsJudgeable(seen)) small.push_back(&seen);
    }
    random_.Shuffle(small);
    std::set<std::string> kinds = known_;
    for (const Seen* seen : small) {
      if (chosen.size() < kMostKinds && kinds.insert(seen->kind).second) chosen.push_back(seen);
    }
    AddBoundaries(chosen);
    AddTelling(small, chosen);
    std::set<std::pair<std::string, uint64_t>> residues;
    const auto residue = [](const Seen* seen) {
      return std::pair(seen->size.key, static_cast<uint64_t>(seen->size.number) % kResidues);
    };
    for (const Seen* seen : chosen) residues.insert(residue(seen));
    for (const Seen* seen : small) {
      if (chosen.size() >= kMostJudged) break;
      if (residues.insert(residue(seen)).second) chosen.push_back(seen);
    }
    return chosen;
  }

  /// Adds for each keyword the sizes that most mistakes depend on, whatever the seed: one, where
  /// divisions by a size less one end; the widest, for loops that end too early; one that vectors
  /// of four fit and vectors of eight do not; an odd one.
  static void AddTelling(const std::vector<const Seen*>& small, std::vector<const Seen*>& chosen) {
    std::map<std::string, std::vector<const Seen*>> by_key;
    for (const Seen* seen : small) by_key[seen->size.key].push_back(seen);
    const auto number = [](const Seen* seen) { return seen->size.number; };
    for (const auto& [key, sizes] : by_key) {
      AddOnce(chosen, *std::ranges::max_element(sizes, {}, number));
      for (const auto& is_wanted :
           {+[](int64_t n) { return n == 1; }, +[](int64_t n) { return n > 8 && n % 8 == 4; },
            +[](int64_t n) { return n > 64 && n % 2 == 1; }}) {
        const auto found = std::ranges::find_if(sizes, is_wanted, number);
        if (found != sizes.end()) AddOnce(chosen, *found);
      }
    }
  }

  /// Adds the sizes before and after the kind of work changes, each change once.
  void AddBoundaries(std::vector<const Seen*>& chosen) {
    std::map<std::string, std::map<int64_t, const Seen*>> by_key;
    for (const Seen& seen : seen_) {
      if (IsJudgeable(seen)) by_key[seen.size.key][seen.size.number] = &seen;
    }
    std::set<std::set<std::string>> changes;
    std::vector<std::pair<const Seen*, const Seen*>> found;
    for (const auto& [key, numbers] : by_key) {
      const Seen* before = nullptr;
      for (const auto& [number, seen] : numbers) {
        if (before != nullptr && before->kind != seen->kind &&
            changes.insert({before->kind, seen->kind}).second) {
          found.emplace_back(before, seen);
        }
        before = seen;
      }
    }
    random_.Shuffle(found);
    if (found.size() > kMostBoundaries) found.resize(kMostBoundaries);
    for (const auto& [before, after] : found) {
      for (const Seen* one : {before, after}) AddOnce(chosen, one);
    }
  }

  /// Adds sizes of which several differ at once.
  Status AddJointSizes(std::vector<const Seen*>& chosen) {
    const std::vector<task::Setting> judged = JudgedSettings();
    std::vector<task::Setting> known = judged;
    for (const Seen* seen : chosen) known.push_back(seen->size.setting);
    const size_t most = candidate_.images() != nullptr ? kMostJoint : kMostJointOfPrograms;
    TRY(AddShapes(task::JointSizes(judged, known, kDrawnForOne * most, random_.Fork("joint")),
                  &Explorer::joint_));
    size_t added = 0;
    for (Seen& seen : joint_) {
      if (added == most || refusals_ > kMostRefusals) break;
      TRY(RecordOne(seen));
      if (IsLaunch(seen.refusal)) {
        AddLimit(seen.refusal.code,
                 fmt::format("cannot be launched at {}: {}", seen.size.setting.derived,
                             AfterColon(seen.refusal.message)));
      }
      if (!IsJudgeable(seen)) continue;
      if (seen.plan) seen.kind = kinds_.Of(*seen.plan);
      chosen.push_back(&seen);
      ++added;
    }
    return {};
  }

  /// False if the candidate is wrong at one of them.
  Result<bool> JudgeMembers() {
    std::vector<const Seen*> chosen = ChooseMembers();
    TRY(AddJointSizes(chosen));
    std::set<std::string> judged = known_;
    std::vector<std::string> slow, without_truth;
    std::string why_without;
    int done = 0;
    Quick recorder(state_->recorder());
    for (const Seen* seen : chosen) {
      parts_.Show({"judging at " + seen->size.setting.derived, ++done,
                   static_cast<int>(chosen.size()), "sizes"});
      task::Setting setting = seen->size.setting;
      setting.id = fmt::format("{}{}", kExplored, done - 1);
      setting.reference_seconds = kReferenceSeconds;
      const SettingContext context = QuickAt(setting, recorder);
      TRY_ASSIGN(SettingResult judgement, JudgeSetting(context));
      records::SettingReport& report = judgement.report;
      if (report.status == records::SettingStatus::kFailed && IsTooSlow(report, *seen)) {
        slow.push_back(report.derived);
        continue;
      }
      if (report.status == records::SettingStatus::kFailed) {
        TRY_ASSIGN(const bool rounds, IsRoundingAlone(context, report));
        if (rounds) {
          AddLimit("wrong_result", InaccurateText(report));
          continue;
        }
        if (Reject(std::move(report))) return false;
        continue;
      }
      if (report.status == records::SettingStatus::kRefused) {
        AddLimit("refused", report.note);
      }
      if (report.status == records::SettingStatus::kNoReference) {
        without_truth.push_back(report.derived);
        why_without = report.note;
      }
      if (!report.passed()) continue;
      judged.insert(seen->kind);
      // Once for settings that differ in a dtype only.
      AddOnce(result().judged, seen->size.setting.derived);
    }
    if (!slow.empty()) {
      AddLimit("instruction_budget",
               fmt::format("does not end within the emulator's budget of instructions at {}: it is "
                           "too slow there, or endless",
                           NameSome(slow, kNamedSizes)));
    }
    if (!without_truth.empty()) {
      AddNote(fmt::format("there is no correct result at {}: {}",
                          NameSome(without_truth, kNamedSizes), why_without));
    }
    std::set<std::string> unjudged;
    for (const Seen& seen : seen_) {
      if (!seen.kind.empty() && !judged.contains(seen.kind)) unjudged.insert(seen.kind);
    }
    result().unjudged = static_cast<int>(unjudged.size());
    return true;
  }

  SettingContext QuickAt(const task::Setting& setting, Quick& recorder) {
    SettingContext context = state_->At(setting);
    context.recorder = &recorder;
    context.tries_controls = false;
    return context;
  }

  /// The decision about one size; its reasons do not name the size.
  static records::Verdict DecideAlone(records::SettingReport report) {
    report.derived.clear();
    records::Verdict alone;
    alone.settings.push_back(std::move(report));
    return judge::Decide(std::move(alone));
  }

  /// Tries other values of numbers that are no sizes: a kernel that only handles its task's is not
  /// wrong, but its users should know.
  Status JudgeOptions() {
    TRY(AddShapes(task::OtherOptions(JudgedSettings()), &Explorer::options_));
    Quick recorder(state_->recorder());
    const Seen* base = nullptr;
    size_t tried = 0;
    for (Seen& seen : options_) {
      if (seen.size.number == 0) {
        base = &seen;
        continue;
      }
      const bool is_passed = base != nullptr && base->size.key == seen.size.key &&
                             RecordingKey(base->args, true) != RecordingKey(seen.args, true);
      if (!is_passed || tried == kMostOptions) continue;
      TRY(RecordOne(seen));
      if (!seen.plan || !IsJudgeable(seen)) continue;
      ++tried;
      TRY_ASSIGN(SettingResult judgement, JudgeSetting(QuickAt(seen.size.setting, recorder)));
      records::SettingReport& report = judgement.report;
      if (report.status != records::SettingStatus::kFailed || IsTooSlow(report, seen)) continue;
      const std::string at = report.derived;
      const records::Verdict alone = DecideAlone(std::move(report));
      if (alone.decision != records::Decision::kRejected) continue;
      AddLimit(alone.reasons.front().code,
               fmt::format("is wrong at {}: {}", at, AfterColon(alone.reasons.front().message)));
    }
    return {};
  }

  /// Whether the kernel only exceeded the budget of instructions, at a size at which a correct one
  /// may, too, as its work may be a square of the size. With few elements, it hangs.
  static bool IsTooSlow(const records::SettingReport& report, const Seen& seen) {
    const auto is_budget = [](const records::Finding& finding) {
      return finding.code == "instruction_budget";
    };
    const auto is_other_error = [&](const records::Finding& finding) {
      return finding.severity == records::Severity::kError && !is_budget(finding);
    };
    return std::ranges::any_of(report.findings, is_budget) &&
           std::ranges::none_of(report.findings, is_other_error) && report.problems.empty() &&
           LargestOf(seen.args) > kFewElements;
  }

  static std::string InaccurateText(const records::SettingReport& report) {
    const records::LargestError largest = report.LargestErrors();
    return fmt::format(
        "loses accuracy at {}: by rounding alone the error is {:.2g} times the limit",
        report.derived, std::max(largest.rms_over_limit, largest.max_over_limit));
  }

  /// Whether the shape alone is wrong. At sizes that a task does not mean (more heads of keys than
  /// of queries) its reference may broadcast, which no kernel needs to do.
  static bool IsOfOtherShape(const records::SettingReport& report) {
    if (report.trials.empty()) return false;
    return std::ranges::any_of(report.trials.front().outputs, [](const records::Comparison& c) {
      return !c.ok && c.code == "wrong_shape";
    });
  }

  /// The candidate fails at a size that was judged. Returns whether that rejects it.
  bool Reject(records::SettingReport report) {
    const std::string at = report.derived;
    const bool other_shape = IsOfOtherShape(report);
    records::Verdict alone = DecideAlone(report);
    if (other_shape || alone.decision != records::Decision::kRejected) {
      AddLimit(other_shape ? "wrong_shape" : "not_judged",
               (other_shape ? "returns another shape at " : "not judged at ") + at);
      return false;
    }
    verdict_.settings.push_back(std::move(report));
    const std::string right = result().judged.empty() ? "" : RightSizes();
    for (records::Reason& reason : alone.reasons) {
      reason.message =
          fmt::format("at {}, which no setting has{}: {}", at, right, AfterColon(reason.message));
      AddReason(verdict_, records::Decision::kRejected, std::move(reason));
    }
    return true;
  }

  std::string RightSizes() {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(4, result().judged.size()); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : "; ", result().judged[i]);
    }
    return fmt::format(" (right at all settings, and at {})", text);
  }

  void AddNote(const std::string& note) {
    result().note += (result().note.empty() ? "" : "; ") + note;
  }

  void AddLimit(std::string code, std::string message) {
    auto& limits = result().limits;
    const bool known = std::ranges::any_of(
        limits, [&](const records::SizeLimit& limit) { return limit.message == message; });
    if (!known && limits.size() < kMostLimits) limits.push_back({std::move(code), message});
  }

  /// Sizes at which launches fail, or which host code refuses.
  Status LimitLaunches() {
    for (const Seen& own : own_seen_) {
      if (own.plan || own.refusal.unsupported || own.refusal.code.empty()) continue;
      if (IsCovered(own) || HasValues(own.args)) continue;
      AddReason(
          verdict_, records::Decision::kRejected,
          {own.refusal.code,
           fmt::format("at the task's own size {} ({}), which is too large to be judged here: {}",
                       own.size.setting.id, own.size.setting.Describe(), own.refusal.message),
           own.refusal.where});
      return {};
    }
    std::set<std::string> done;       // by keyword and cause
    for (const Seen& seen : seen_) {  // in the order of bytes
      if (seen.plan || seen.size.number == 0 || HasValues(seen.args)) continue;
      if (!IsLaunch(seen.refusal) && seen.refusal.code != "host_exception") continue;
      if (!done.insert(seen.size.key + seen.refusal.code).second) continue;
      TRY(LimitOne(seen));
    }
    return {};
  }

  /// The largest number of the same keyword below `failing` at which a call was recorded, with the
  /// same other sizes.
  const Seen* Below(const Seen& failing) const {
    const Seen* best = nullptr;
    const auto rest = [](const Seen& seen) {
      const std::string& text = seen.size.setting.derived;
      return text.substr(std::min(text.find(' '), text.size()));
    };
    for (const Seen& seen : seen_) {
      if (!seen.plan || seen.size.key != failing.size.key || rest(seen) != rest(failing)) continue;
      if (seen.size.number >= failing.size.number) continue;
      if (best == nullptr || seen.size.number > best->size.number) best = &seen;
    }
    return best;
  }

  /// True if a call at this number is refused for the same cause, which `refusal` then has.
  Result<bool> FailsAt(const Seen& failing, int64_t number, record::Refusal& refusal) {
    const ExploredSize size = task::AtNumber(failing.size, number);
    auto shapes = parts_.oracle->Shapes(*question_.task, question_.direction,
                                        std::vector<task::Setting>{size.setting});
    if (!shapes && IsOfShapes(shapes.error())) return false;
    if (!shapes) return tl::unexpected(shapes.error());
    auto* shape = std::get_if<task::CallShape>(&shapes->front());
    if (shape == nullptr) return false;
    Seen seen;
    seen.size = size;
    seen.args = std::move(shape->args);
    TRY(RecordOne(seen));
    const bool fails = !seen.plan && seen.refusal.code == failing.refusal.code;
    if (fails) refusal = std::move(seen.refusal);
    return fails;
  }

  /// The other keywords at this size: "columns=256 dtype=float32".
  static std::string OthersOf(const ExploredSize& size) {
    task::Setting others = size.setting;
    others.init.erase(size.key);
    others.inputs.erase(size.key);
    return others.Describe();
  }

  Status LimitOne(const Seen& failing) {
    const Seen* below = Below(failing);
    int64_t first = failing.size.number;
    std::string text = failing.size.setting.derived;
    record::Refusal refusal = failing.refusal;
    const bool is_bounded = below != nullptr && IsLaunch(failing.refusal);
    if (is_bounded) {
      int64_t works = below->size.number;
      for (int step = 0; step < kMostSteps && first - works > 1; ++step) {
        const int64_t middle = works + (first - works) / 2;
        TRY_ASSIGN(const bool fails, FailsAt(failing, middle, refusal));
        (fails ? first : works) = middle;
      }
      const std::string others = OthersOf(failing.size);
      text = fmt::format("{}={} on{}", failing.size.key, first,
                         others.empty() ? "" : fmt::format(" (with {})", others));
    }
    const bool launch = IsLaunch(failing.refusal);
    AddLimit(launch ? failing.refusal.code : "refused",
             fmt::format("{} {}{}: {}", launch ? "cannot be launched" : "refuses",
                         !launch      ? ""
                         : is_bounded ? "from "
                                      : "at ",
                         text, refusal.message));
    return {};
  }

  /// Checks the addresses of some blocks at the task's own sizes and at large ones.
  Status CheckAddresses() {
    if (parts_.engine->Name() != "emu") return {};
    AddressRuns addresses(*state_, parts_, random_.Fork("addresses"));
    std::vector<RecordedCall> judged;
    for (const Seen& seen : covered_) {
      if (seen.plan) judged.push_back(CallOf(seen));
    }
    size_t runs = 0;
    std::set<std::string> kinds;
    for (const Seen& own : own_seen_) {
      if (runs == kMostAddressRuns) return {};
      if (!own.plan || IsCovered(own) || !kinds.insert(own.kind).second) continue;
      ++runs;
      TRY_ASSIGN(const auto fault, addresses.FaultAt(CallOf(own), judged));
      if (!fault) continue;
      AddReason(verdict_, records::Decision::kRejected,
                {fault->code,
                 fmt::format("at the task's own size {} ({}), of which some blocks were run: {}",
                             own.size.setting.id, own.size.setting.Describe(), fault->text),
                 fault->where});
      return {};
    }
    std::set<std::pair<std::string, int>> known;  // codes and lines: the smallest size is enough
    for (const Seen& seen : seen_) {
      if (runs == kMostAddressRuns) return {};
      if (!seen.plan || LargestOf(seen.args) <= INT32_MAX) continue;
      ++runs;
      TRY_ASSIGN(const auto fault, addresses.FaultAt(CallOf(seen), judged));
      if (!fault || !known.emplace(fault->code, fault->line).second) continue;
      AddLimit(fault->code,
               fmt::format("wrong at {} (a tensor has {} elements): {}", seen.size.setting.derived,
                           LargestOf(seen.args), fault->text));
    }
    return {};
  }

  static RecordedCall CallOf(const Seen& seen) { return {&*seen.plan, &seen.images, &seen.args}; }

  /// Whether a setting with these arguments was judged.
  bool IsCovered(const Seen& own) const {
    return std::ranges::any_of(covered_, [&](const Seen& seen) {
      return seen.size.setting.init == own.size.setting.init &&
             seen.size.setting.inputs == own.size.setting.inputs;
    });
  }

  const Candidate& candidate_;
  Question question_;
  const Parts& parts_;
  const Explored& explored_;
  Random random_;
  records::Verdict& verdict_;
  std::unique_ptr<JudgingState> state_;
  std::vector<Seen> covered_, own_seen_, seen_, joint_, options_;
  Json default_init_ = Json::object(), default_inputs_ = Json::object();  // of CallShape
  WorkKinds kinds_;
  std::set<std::string> known_;  // kinds of work at judged settings
  size_t refusals_ = 0;
  uint64_t plan_bytes_ = 0;
};

}  // namespace

bool IsExplored(const records::SettingReport& setting) { return setting.id.starts_with(kExplored); }

Status Explore(const Candidate& candidate, const Question& question, const Parts& parts,
               const Explored& explored, records::Verdict& verdict,
               std::set<std::string>& launched) {
  Explorer explorer(candidate, question, parts, explored, verdict);
  const Status status = explorer.Run();
  explorer.MoveLaunched(launched);
  return status;
}

}  // namespace cupel::assay
