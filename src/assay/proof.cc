// Tested by proof_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "assay/proof.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "assay/contract.h"
#include "assay/loaded_images.h"
#include "assay/open_recorder.h"
#include "assay/trial.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "engine/field.h"
#include "judge/compare.h"

namespace cupel::assay {
namespace {

constexpr std::chrono::seconds kProofDeadline{120};
constexpr size_t kMostBarriers = 16;
constexpr std::chrono::seconds kBarrierDeadline{10};

std::string Counted(const std::string& what, int64_t elements) {
  return fmt::format("{} ({} element{})", what, elements, elements == 1 ? "" : "s");
}

/// Counts reasons.
class Reasons {
 public:
  void Add(const std::string& reason, int64_t elements = 1) {
    for (auto& [known, count] : counts_) {
      if (known == reason) {
        count += elements;
        return;
      }
    }
    counts_.emplace_back(reason, elements);
  }
  std::vector<std::string> Texts() const {
    auto sorted = counts_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> texts;
    texts.reserve(sorted.size());
    for (const auto& [reason, count] : sorted) {
      texts.push_back(Counted(reason, count));
    }
    return texts;
  }

 private:
  std::vector<std::pair<std::string, int64_t>> counts_;
};

/// Why elements with these flags may differ though the functions are equal. Null: no reason.
const char* ReasonOf(uint32_t flags) {
  if ((flags & (engine::kFieldConstant | engine::kFieldWithin)) != 0) {
    return "a constant that is no number of the reference, rounded to its type";
  }
  if ((flags & engine::kFieldUnknown) != 0) {
    return "infinite numbers, or a quotient by zero in a field";
  }
  if ((flags & engine::kFieldOpaque) != 0) {
    return "a law of logarithms, sines, nested exponentials or squares of roots may be missing, or "
           "another of equal numbers is chosen";
  }
  if ((flags & engine::kFieldRoot) != 0) {
    return "square roots of the kernel, whose signs in a field may be others";
  }
  return nullptr;
}

void AddCauses(const std::vector<records::ShadowCause>& causes, const char* what,
               std::vector<std::string>& reasons) {
  for (const records::ShadowCause& cause : causes) {
    reasons.push_back(Counted(what + cause.what, cause.elements));
  }
}

/// Integers that are equal on these inputs are equal for all that take the same decisions, unless
/// floats were rounded to them, or exact arithmetic may decide differently.
OutputProof IntegerProof(const std::string& name, const engine::OutputTensor& real) {
  OutputProof proof;
  proof.name = name;
  proof.is_integers = true;
  proof.count = static_cast<int64_t>(real.shadow_state.size());
  proof.proved = std::count(real.shadow_state.begin(), real.shadow_state.end(), 0);
  proof.unfollowed = proof.count - proof.proved;
  if (proof.unfollowed > 0) AddCauses(real.shadow_causes, "not followed: ", proof.reasons);
  return proof;
}

bool HasRace(const std::vector<records::Finding>& findings) {
  return std::ranges::any_of(findings, [](const records::Finding& finding) {
    return finding.code.find("race") != std::string::npos;
  });
}

/// The only order that a comparison found. Null: there are several.
const char* OnlyOrder(const engine::Decision& d) {
  if (int{d.less} + int{d.equal} + int{d.greater} + int{d.unordered} != 1) return nullptr;
  return d.less ? "less" : d.equal ? "equal" : d.greater ? "greater" : "not a number";
}

double GotAt(const engine::OutputTensor& got, size_t at) {
  return LoadAsDouble(got.dtype, got.bytes.data(), static_cast<int64_t>(at));
}
double WantedAt(const task::Output& wanted, size_t at) {
  return LoadAsDouble(DType::kF64, wanted.truth.storage.data(),
                      wanted.truth.offset + static_cast<int64_t>(at));
}

/// One proof.
class Prover {
 public:
  Prover(const Parts& parts, const Candidate& candidate, const Question& question,
         const task::Setting& setting, task::Distribution inputs, bool tries_barriers)
      : parts_(parts),
        candidate_(candidate),
        question_(question),
        setting_(setting),
        inputs_(inputs),
        tries_barriers_(tries_barriers),
        random_(Random(question.seed ? *question.seed : EntropySeed())
                    .Fork(fmt::format("proof/{}/{}", setting.id, task::Name(inputs)))),
        run_seed_(random_()),
        loaded_(*parts.engine) {}

  Result<Proof> Run() {
    const auto start = std::chrono::steady_clock::now();
    proof_.setting = setting_.id;
    proof_.sizes = setting_.Describe();
    proof_.inputs = inputs_;
    TRY(Work());
    proof_.seconds = SecondsSince(start);
    if (!proof_.reason.empty()) {
      if (proof_.fields == 0 && !proof_.beyond_tolerance.empty()) {
        TRY(Wrong(proof_.beyond_tolerance));
      }
      return std::move(proof_);
    }
    const auto any = [&](auto member) {
      return std::any_of(proof_.outputs.begin(), proof_.outputs.end(),
                         [&](const OutputProof& output) { return output.*member > 0; });
    };
    const bool open = any(&OutputProof::unfollowed) || any(&OutputProof::unexplained);
    proof_.outcome = any(&OutputProof::differing) ? ProofOutcome::kDiffers
                     : open                       ? ProofOutcome::kNotProved
                                                  : ProofOutcome::kProved;
    // What is proved may be rounded badly.
    if (is_wrong_) TRY(Wrong(proof_.beyond_tolerance));
    return std::move(proof_);
  }

 private:
  Status NotProved(std::string reason) {
    proof_.reason = std::move(reason);
    return {};
  }
  Status Wrong(const std::string& message) {
    proof_.outcome = ProofOutcome::kDiffers;
    return NotProved("the result is wrong, even within rounding: " + message);
  }

  Status Work() {
    if (const auto* failure = std::get_if<build::BuildFailure>(&candidate_.built)) {
      return NotProved(fmt::format("it does not build: {}{}", failure->message,
                                   failure->where.empty() ? "" : " at " + failure->where));
    }
    const uint64_t seed = random_();
    TRY_ASSIGN(auto cases, parts_.oracle->OpenSeeds(*question_.task, question_.direction, setting_,
                                                    {seed}, inputs_));
    TRY_ASSIGN(auto outcome, cases->Next());
    if (!outcome) return NotProved("there is no case");
    if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
      proof_.inapplicable = failure->inapplicable;
      return NotProved("the task's own reference fails: " + failure->message);
    }
    const auto& wanted = std::get<task::Case>(*outcome);
    TRY_ASSIGN(const auto recorder, OpenRecorder(candidate_, question_, parts_, random_()));
    TRY_ASSIGN(auto recorded, recorder->Record(std::string(task::Name(question_.direction)),
                                               wanted.args, setting_));
    if (const auto* refusal = std::get_if<record::Refusal>(&recorded)) {
      return NotProved(fmt::format("{}: {}", refusal->code, refusal->message));
    }
    auto& recording = std::get<record::Recording>(recorded);
    if (const Status loaded = loaded_.Use(recording.images); !loaded) {
      if (!IsUnsupportedCode(loaded.error())) return tl::unexpected(loaded.error());
      return NotProved(loaded.error().message);
    }
    FitToCase(recording.plan, wanted);
    if (const auto broken = ContractProblem(recording.plan, wanted)) {
      return Wrong(broken->message);
    }
    host_reads_floats_ =
        recording.reads_values &&
        std::ranges::any_of(task::TensorLeaves(wanted.args), [](const task::Tensor* tensor) {
          return IsFloating(tensor->dtype) && task::HostMayRead(*tensor);
        });
    return Compute(recording.plan, wanted, seed);
  }

  Status Compute(const plan::Plan& plan, const task::Case& wanted, uint64_t seed) {
    TRY_ASSIGN(const auto real, Execute(plan, wanted, {}));
    if (!real) return {};
    const auto comparisons = CompareAll(*real, wanted);
    for (size_t i = 0; i < comparisons.size(); ++i) {
      const records::Comparison& comparison = comparisons[i];
      if (comparison.ok) continue;
      const bool may_be_rounding =
          comparison.code == "wrong_result" && IsFloating(wanted.outputs.at(i).dtype);
      if (!may_be_rounding) return Wrong(comparison.message);
      beyond_.insert(i);
      if (proof_.beyond_tolerance.empty()) proof_.beyond_tolerance = comparison.message;
    }
    const uint64_t field_seed = random_();
    parts_.Show(Progress{"the reference in finite fields"});
    TRY_ASSIGN(const auto reference, parts_.oracle->Elements(*question_.task, question_.direction,
                                                             setting_, inputs_, seed, field_seed));
    if (const auto* failure = std::get_if<oracle::SettingFailure>(&reference)) {
      return NotProved("the reference fails in finite fields: " + failure->message);
    }
    const auto& results = std::get<oracle::FieldResults>(reference);
    if (!results.not_covered.empty()) return NotProved("not covered: " + results.not_covered);
    if (results.outputs.size() != wanted.outputs.size()) {
      return NotProved("the reference has other outputs in finite fields");
    }
    std::vector<engine::Run> runs;
    for (size_t field = 0; field < oracle::kFields; ++field) {
      parts_.Show(Progress{fmt::format("in field {} of {}", field + 1, oracle::kFields)});
      TRY_ASSIGN(auto run, Execute(plan, wanted, OptionsOf(field, field_seed, results)));
      if (!run) return {};
      runs.push_back(std::move(*run));
    }
    proof_.fields = static_cast<int>(runs.size());
    proof_.any_order = !real->order_matters && !HasRace(real->findings);
    NoteRegion(runs.front().decisions);
    if (tries_barriers_) TRY(TryBarriers(plan, wanted, real->barriers));
    for (size_t i = 0; i < wanted.outputs.size(); ++i) {
      const task::Output& output = wanted.outputs[i];
      if (output.is_none || output.truth.numel() == 0) continue;
      if (!IsFloating(output.dtype)) {
        proof_.outputs.push_back(IntegerProof(output.name, real->outputs[i]));
        continue;
      }
      TRY(CompareOutput(i, *real, runs, results, output));
      if (!proof_.reason.empty()) return {};
    }
    if (proof_.outputs.empty()) return NotProved("there are no outputs");
    return {};
  }

  /// Looks for races without each of the barriers.
  Status TryBarriers(const plan::Plan& plan, const task::Case& wanted,
                     const std::vector<std::string>& places) {
    const size_t count = std::min(places.size(), kMostBarriers);
    for (size_t i = 0; i < count; ++i) {
      parts_.Show(Progress{fmt::format("without the barrier at {}", places[i])});
      engine::RunOptions options;
      options.seed = run_seed_;
      options.counters = false;
      options.full_checks = true;
      options.muted_barrier = places[i];
      options.cancelled = EndAfter(kBarrierDeadline, parts_.stop);
      auto run = loaded_.program().Execute(plan, task::StoragesOf(wanted.args), options);
      if (!run) {
        if (IsOurs(run.error(), parts_.stop)) return tl::unexpected(run.error());
        return {};  // it takes too long
      }
      if (run->completed && run->met_muted_barrier && run->findings.empty()) {
        proof_.removable_barriers.push_back(places[i]);
      }
    }
    return {};
  }

  /// A wrong sign of a root may escape fields. Exact arithmetic in double shows it: returns true.
  bool NoteRoots(const std::vector<uint64_t>& elements, const engine::OutputTensor& real,
                 const task::Output& output) {
    constexpr double kNear = 0x1p-16;  // of the output's RMS
    double squares = 0;
    for (size_t at = 0; at < elements.size(); ++at) squares += std::pow(WantedAt(output, at), 2);
    bool apart = false;
    const double near = kNear * std::sqrt(squares / static_cast<double>(elements.size()));
    for (size_t at = 0; at < elements.size(); ++at) {
      if ((engine::UnpackElement(elements[at]).flags & engine::kFieldRoot) == 0) continue;
      proof_.has_roots = true;
      const bool close = std::fabs(real.shadow[at] - WantedAt(output, at)) <= near;
      apart |= !close || real.shadow_state[at] != 0;
    }
    return apart;
  }

  void NoteRegion(const std::vector<engine::Decision>& decisions) {
    for (const engine::Decision& decision : decisions) {
      const char* only = OnlyOrder(decision);
      if (only == nullptr) {
        ++proof_.varying_decisions;
        continue;
      }
      std::string text = decision.where + ": always " + only;
      if (std::ranges::find(proof_.fixed_decisions, text) == proof_.fixed_decisions.end()) {
        proof_.fixed_decisions.push_back(std::move(text));
      }
    }
  }

  Status CompareOutput(size_t i, const engine::Run& real, const std::vector<engine::Run>& runs,
                       const oracle::FieldResults& results, const task::Output& output) {
    const auto& wanted = results.outputs[i];
    if (!wanted) {
      return NotProved(
          fmt::format("{} depends on floating-point arguments only through decisions and "
                      "rounding to integers, or not at all",
                      output.name));
    }
    std::array<ElementPair, oracle::kFields> fields;
    for (size_t f = 0; f < fields.size(); ++f) {
      fields[f] = {&runs[f].outputs[i].elements, &(*wanted)[f], &(*wanted)[oracle::kFields + f]};
      if (fields[f].kernel->size() != fields[f].p->size() ||
          fields[f].kernel->size() != real.outputs[i].shadow.size()) {
        return NotProved(fmt::format("{} has another number of elements", output.name));
      }
    }
    std::vector<bool> infinite(fields[0].p->size());
    for (size_t at = 0; at < infinite.size(); ++at) {
      const double value = GotAt(real.outputs[i], at);
      infinite[at] = std::isinf(value) && value == WantedAt(output, at);
    }
    OutputProof proof = CompareElements(real.outputs[i], fields, results.functions, infinite);
    if (proof.unexplained > 0) {
      AddCauses(runs.front().outputs[i].shadow_causes, "in ", proof.reasons);
    }
    if (host_reads_floats_ && proof.differing > 0) {
      // For the kernel they are constants, for the reference arguments.
      proof.reasons.push_back(
          Counted("numbers of arguments that host code reads", proof.differing));
      proof.unexplained += std::exchange(proof.differing, 0);
    }
    proof.name = output.name;
    const bool apart = NoteRoots(*fields[0].kernel, real.outputs[i], output);
    const bool is_rounding = proof.proved == proof.count && !apart;
    is_wrong_ |= beyond_.contains(i) && !is_rounding;
    if (proof.differing > 0) {
      const int64_t at = proof.first_element;
      proof.first = task::IndexOf(at, output.shape);
      proof.value = GotAt(real.outputs[i], static_cast<size_t>(at));
      proof.shadow = real.outputs[i].shadow[static_cast<size_t>(at)];
      proof.truth = WantedAt(output, static_cast<size_t>(at));
    }
    proof_.outputs.push_back(std::move(proof));
    return {};
  }

  static engine::FieldOptions OptionsOf(size_t field, uint64_t seed,
                                        const oracle::FieldResults& results) {
    engine::FieldOptions options;
    options.index = static_cast<int>(field);
    options.seed = seed;
    for (const auto& number : results.numbers) {
      options.numbers.push_back(
          {number.value, number.residues[field], number.residues[oracle::kFields + field]});
    }
    for (const auto& [index, residues] : results.arguments) {
      options.arguments.push_back({index, residues[field], residues[oracle::kFields + field]});
    }
    return options;
  }

  /// Returns nothing, and says so in the proof, if the run shows nothing.
  Result<std::optional<engine::Run>> Execute(const plan::Plan& plan, const task::Case& wanted,
                                             std::optional<engine::FieldOptions> field) {
    engine::RunOptions options;
    options.seed = run_seed_;
    options.counters = false;
    options.shadows = true;
    options.full_checks = !field;  // races show without fields
    options.lists_barriers = !field && tries_barriers_;
    options.field = std::move(field);
    options.cancelled = EndAfter(kProofDeadline, parts_.stop);
    options.argument_types = task::TypesOf(wanted.args);
    const auto start = std::chrono::steady_clock::now();
    auto run = loaded_.program().Execute(plan, task::StoragesOf(wanted.args), options);
    (options.field ? proof_.field_seconds : proof_.shadow_seconds) += SecondsSince(start);
    if (!run) {
      if (IsOurs(run.error(), parts_.stop)) return tl::unexpected(run.error());
      TRY(NotProved(run.error().code == ErrorCode::kCancelled ? "it takes too long"
                                                              : run.error().message));
      return std::optional<engine::Run>();
    }
    std::string problem;
    if (!run->unsupported.empty()) {
      problem = "the emulator does not support " + run->unsupported;
    } else if (!run->completed || HasError(run->findings)) {
      problem = run->findings.empty() ? "the kernel does not run to its end"
                                      : fmt::format("{}: {}", run->findings.front().code,
                                                    run->findings.front().message);
      proof_.broken = true;
    } else if (!run->not_followed.empty()) {
      problem = "not followed: " + run->not_followed.front();
    }
    if (problem.empty()) return std::optional(std::move(*run));
    TRY(NotProved(std::move(problem)));
    return std::optional<engine::Run>();
  }

  const Parts& parts_;
  const Candidate& candidate_;
  const Question& question_;
  const task::Setting& setting_;
  task::Distribution inputs_;
  bool tries_barriers_;
  Random random_;
  uint64_t run_seed_;
  LoadedImages loaded_;
  Proof proof_;
  std::set<size_t> beyond_;  // outputs that are not within their tolerance
  bool host_reads_floats_ = false;
  bool is_wrong_ = false;  // one of them, and not by rounding
};

}  // namespace

const char* Name(ProofOutcome outcome) {
  switch (outcome) {
    case ProofOutcome::kProved:
      return "proved";
    case ProofOutcome::kDiffers:
      return "differs";
    case ProofOutcome::kNotProved:
      break;
  }
  return "not proved";
}

OutputProof CompareElements(const engine::OutputTensor& real,
                            const std::array<ElementPair, oracle::kFields>& fields,
                            const std::vector<std::string>& functions,
                            const std::vector<bool>& infinite) {
  OutputProof proof;
  proof.count = static_cast<int64_t>(real.shadow_state.size());
  Reasons reasons;
  for (size_t i = 0; i < real.shadow_state.size(); ++i) {
    uint32_t flags = 0;
    size_t same = 0, same_exponents = 0;
    for (const ElementPair& field : fields) {
      const engine::FieldElement element = engine::UnpackElement((*field.kernel)[i]);
      flags |= element.flags;
      same += element.p == (*field.p)[i];
      same_exponents += element.q == (*field.q)[i];
    }
    const bool equal = same == fields.size() || same_exponents == fields.size();
    const bool is_infinite = i < infinite.size() && infinite[i];
    if (is_infinite || (equal && (flags & (engine::kFieldUnknown | engine::kFieldWithin)) == 0)) {
      ++proof.proved;  // whatever was decided or rounded to integers is the same for inputs nearby
    } else if (real.shadow_state[i] != 0) {
      ++proof.unfollowed;
    } else if (const char* reason = ReasonOf(flags)) {
      ++proof.unexplained;
      reasons.Add(reason);
    } else if (!functions.empty()) {
      ++proof.unexplained;
      reasons.Add(fmt::format("the reference has what is known only in part: {}",
                              fmt::join(functions, ", ")));
    } else {
      if (proof.differing++ == 0) proof.first_element = static_cast<int64_t>(i);
    }
  }
  if (proof.unfollowed > 0) AddCauses(real.shadow_causes, "not followed: ", proof.reasons);
  for (std::string& text : reasons.Texts()) proof.reasons.push_back(std::move(text));
  return proof;
}

Result<Proof> Prove(const Parts& parts, const Candidate& candidate, const Question& question,
                    const task::Setting& setting, task::Distribution inputs, bool tries_barriers) {
  return Prover(parts, candidate, question, setting, inputs, tries_barriers).Run();
}

}  // namespace cupel::assay
