// SPDX-License-Identifier: Apache-2.0
#include "evolve/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "evolve/candidates.h"
#include "evolve/cascade.h"
#include "evolve/slots.h"

namespace cupel::evolve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kAuditShare = 0.125;  // share of stopped candidates that is judged nevertheless
constexpr size_t kMostHints = 32;
constexpr const char* kScreenStage = "screen";
constexpr const char* kScreenRecord = "the record of the screen stage";
constexpr size_t kNoSlot = std::numeric_limits<size_t>::max();
// Rewards of a proposal for its model and its hints.
constexpr double kRight = 0.3, kBetterThanParent = 0.6, kNewBest = 1;

/// A kernel that became a candidate.
struct Entry {
  size_t slot = 0;
  int64_t id = 0;
  std::string source;
  std::vector<int64_t> hints;  // those that its author named
  bool is_out = false;         // stopped before the judge
  double score = 0.5;          // by the reviewers
  bool is_audited = false;     // judged although reviewers stopped it
  std::optional<double> estimate;
};

class Generation {
 public:
  Generation(const EvolutionParts& parts, const EvolutionOptions& options, SearchState& state,
             RunMemory& memory)
      : parts_(parts),
        options_(options),
        state_(state),
        memory_(memory),
        number_(state.generation + 1),
        random_(Random(options.seed).Fork(fmt::format("generation {}", number_))) {}

  Result<Json> Run() {
    const auto start = Clock::now();
    parts_.evaluator.scale().generation = number_;
    TRY_ASSIGN(before_, CandidatesBefore(parts_.archive, number_));
    const archive::Candidate* best = BestOf(before_);
    if (best == nullptr) return Fail(ErrorCode::kInternal, "the generation has no parent");
    best_before_ = *best->objective;
    TRY(ReportStage("summarising"));
    TRY_ASSIGN(plan_, MakePlan(parts_, options_, number_, before_, state_, memory_, random_));
    TRY(LoadKnown());
    TRY(Ask());
    TRY(AddCandidates());
    TRY(DropCopies());
    TRY(Compile());
    if (reads_) TRY(Review());
    if (parts_.evaluator.can_screen()) TRY(Screen());
    TRY(Choose());
    TRY(parts_.evaluator.Evaluate(chosen_));
    parts_.evaluator.Forget();
    TRY(Learn());
    TRY(Polish());
    TRY(End());
    return Facts(SecondsSince(start));
  }

 private:
  Status ReportStage(const std::string& what) {
    parts_.evaluator.scale().usd = llm::Dollars(parts_.conversations.Spent().money);
    return parts_.evaluator.Report(fmt::format("generation {}: {}", number_, what));
  }

  /// What proposals are compared with. While askers work, only they may use the archive.
  Status LoadKnown() {
    for (const archive::Candidate& one : before_) {
      TRY_ASSIGN(const Shingles* shingles, memory_.ShinglesOf(one.id));
      known_ids_.push_back(one.id);
      known_.push_back(*shingles);
      known_slots_.push_back(kNoSlot);
    }
    return RecallScreens();
  }

  /// A run that was killed in this generation may have screened some of its kernels.
  Status RecallScreens() {
    TRY_ASSIGN(const auto stages, parts_.archive.Stages());
    for (const archive::Stage& stage : stages) {
      if (stage.name != kScreenStage || !stage.passed) continue;
      TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(stage.candidate));
      if (candidate.generation != number_) continue;
      TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kScreenRecord));
      Screening known;
      known.compiles = known.right = true;
      if (auto us = JsonNumber(detail, "estimated_us", kScreenRecord)) known.estimate = *us;
      known.work = JsonString(detail, "work", kScreenRecord).value_or("");
      TRY_ASSIGN(const std::string source, parts_.archive.Source(stage.candidate));
      parts_.evaluator.Recall(source, std::move(known));
    }
    return {};
  }

  Status Ask() {
    ProposingOptions asking;
    asking.generation = number_;
    asking.repairs = options_.repairs;
    asking.sequential = options_.sequential;
    asking.stop = options_.stop;
    TRY(ReportStage(fmt::format("asking for {} proposals", plan_.slots.size())));
    const ProposingWork work{
        [this](const std::string& source) { parts_.evaluator.CompileAhead(source); },
        [this](const std::string& source) { return FaultOf(source); },
        [this](int done) {
          parts_.evaluator.ShowAgain(
              fmt::format("generation {}: {} of {} proposals", number_, done, plan_.slots.size()));
        }};
    TRY_ASSIGN(proposed_, AskForProposals(plan_.slots, parts_.proposers, asking, work));
    const auto first = std::ranges::find(proposed_, true, &Proposed::not_asked);
    if (first == proposed_.end()) return {};
    const auto missing = std::ranges::count(proposed_, true, &Proposed::not_asked);
    if (missing == std::ssize(proposed_)) {
      Error error = first->error;
      error.message =
          fmt::format("generation {}: no model is available: {}", number_, error.message);
      return tl::unexpected(std::move(error));
    }
    parts_.evaluator.Note(fmt::format("generation {}: {} of {} proposals are missing: {}", number_,
                                      missing, proposed_.size(), first->error.message));
    return {};
  }

  /// What is wrong with a proposed kernel, by the cheap judgement. Nothing, if it will be dropped
  /// as a copy, or if reviewers read it first.
  Result<std::string> FaultOf(const std::string& source) {
    const Shingles own = memory_.Of(source);
    const bool copy = options_.novelty && std::ranges::any_of(known_, [&](const Shingles& known) {
                        return IsCopy(own, known);
                      });
    if (copy) return std::string();
    const bool screens = !reads_ && parts_.evaluator.can_screen();
    TRY_ASSIGN(const Screening screening,
               screens ? parts_.evaluator.Screen(source) : parts_.evaluator.Compile(source));
    return screening.lessons;
  }

  Status AddCandidates() {
    std::set<int64_t> taken;
    for (size_t i = 0; i < proposed_.size(); ++i) {
      const Proposed& one = proposed_[i];
      if (!one.problem.empty()) {
        unusable_.push_back(Json{{"proposal", plan_.slots[i].number},
                                 {"model", parts_.proposers[plan_.slots[i].model]->model()},
                                 {"exchange", one.exchange},
                                 {"reason", one.problem}});
      }
      std::optional<int64_t> failed;  // the attempt that the next one repairs
      for (const ProposedKernel& attempt : one.kernels) {
        TRY_ASSIGN(const auto added,
                   parts_.archive.AddCandidate(CandidateOf(plan_.slots[i], attempt, failed)));
        TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(added.id));
        failed = added.id;
        if (candidate.generation < number_ || !taken.insert(added.id).second) {
          ++copies_;  // identical to a candidate of the run
          continue;
        }
        for (const std::string& exchange : attempt.exchanges) {
          TRY(parts_.archive.AttributeExchange(exchange, added.id));
        }
        Entry entry;
        entry.slot = i;
        entry.id = added.id;
        entry.source = attempt.source;
        entry.hints = NamedHints(plan_.slots[i], attempt);
        entries_.push_back(std::move(entry));
      }
    }
    return {};
  }

  /// The hints that the author says it used.
  static std::vector<int64_t> NamedHints(const Slot& slot, const ProposedKernel& attempt) {
    std::vector<int64_t> named;  // numbers are distinct
    for (const int number : attempt.ideas) {
      const auto index = static_cast<size_t>(number - 1);
      if (number >= 1 && index < slot.hints.size()) named.push_back(slot.hints[index]);
    }
    return named;
  }

  archive::NewCandidate CandidateOf(const Slot& slot, const ProposedKernel& attempt,
                                    std::optional<int64_t> repaired) const {
    archive::NewCandidate candidate;
    candidate.source = attempt.source;
    candidate.proposer = "llm:" + parts_.proposers[slot.model]->model();
    candidate.description =
        attempt.name.empty() ? fmt::format("proposal {}", slot.number) : attempt.name;
    candidate.generation = number_;
    candidate.parents = repaired ? std::vector{*repaired} : slot.parents;
    candidate.meta = DumpJson(Json{{"operator", repaired ? "repair" : Name(slot.op)},
                                   {"name", attempt.name},
                                   {"thought", attempt.thought},
                                   {"island", state_.islands[plan_.island].id},
                                   {"proposal", slot.number},
                                   {"model", parts_.proposers[slot.model]->model()},
                                   {"exchange", attempt.exchange},
                                   {"hints", slot.hints},
                                   {"used_hints", NamedHints(slot, attempt)}});
    return candidate;
  }

  /// A stage that was recorded for this candidate before the generation was interrupted.
  Result<std::optional<archive::Stage>> RecordedStage(int64_t id, std::string_view name) const {
    TRY_ASSIGN(const auto stages, parts_.archive.StagesOf(id));
    for (const archive::Stage& stage : stages) {
      if (stage.name == name) return std::optional<archive::Stage>(stage);
    }
    return std::optional<archive::Stage>();
  }

  Status RecordStage(Entry& entry, const char* name, bool passed, const Json& detail,
                     double seconds, bool drop) {
    TRY_ASSIGN(const auto recorded, RecordedStage(entry.id, name));
    const archive::Stage stage{entry.id, name, passed, DumpJson(detail), seconds};
    entry.is_out = entry.is_out || drop;
    TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(entry.id));
    if (drop && candidate.status != archive::CandidateStatus::kDone) {
      return parts_.archive.Drop(stage);
    }
    return recorded ? Status() : parts_.archive.AddStage(stage);
  }

  Status DropCopies() {
    if (!options_.novelty) return {};
    for (Entry& entry : entries_) {
      const auto start = Clock::now();
      TRY_ASSIGN(const Shingles* own, memory_.ShinglesOf(entry.id));
      // A repair may be nearly the attempt that it repairs, which came just before it.
      const auto first = std::ranges::find(known_slots_, entry.slot) - known_slots_.begin();
      const auto nearest = FindNearest(*own, std::span(known_).first(static_cast<size_t>(first)));
      const bool copy = nearest && nearest->is_copy;
      Json detail = Json::object();
      if (nearest) {
        detail = {{"nearest", known_ids_[nearest->index]}, {"similarity", nearest->similarity}};
      }
      TRY(RecordStage(entry, "novelty", !copy, detail, SecondsSince(start), copy));
      copies_ += copy ? 1 : 0;
      known_ids_.push_back(entry.id);
      known_.push_back(*own);
      known_slots_.push_back(entry.slot);
    }
    return {};
  }

  std::vector<int64_t> Remaining() const {
    std::vector<int64_t> ids;
    for (const Entry& entry : entries_) {
      if (!entry.is_out) ids.push_back(entry.id);
    }
    return ids;
  }

  Entry& Of(int64_t id) {
    return *std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& one) { return one.id == id; });
  }

  /// Candidates that do not compile get their verdict now and do not use a place before the judge.
  Status Compile() {
    std::vector<int64_t> broken;
    auto start = Clock::now();
    const auto look = [&](int64_t id, const assay::Candidate& built) -> Status {
      Entry& entry = Of(id);
      // The extensions of a Python program are compiled when it is judged.
      const bool fine = !std::holds_alternative<build::BuildFailure>(built.built);
      const double seconds = SecondsSince(std::exchange(start, Clock::now()));
      TRY(RecordStage(entry, "build", fine, Json::object(), seconds, false));
      if (!fine) {
        entry.is_out = true;
        broken.push_back(id);
      }
      return {};
    };
    TRY(parts_.evaluator.Build(Remaining(), look));
    return parts_.evaluator.Evaluate(broken);
  }

  Status Review() {
    std::vector<Entry*> remaining;
    for (Entry& entry : entries_) {
      if (!entry.is_out) remaining.push_back(&entry);
    }
    reviewed_ = static_cast<int>(remaining.size());
    TRY(ReportStage(fmt::format("reviewing {} candidates", remaining.size())));
    const auto start = Clock::now();
    TRY_ASSIGN(const std::vector<Json> reviews, Reviews(remaining));
    const double each = SecondsSince(start) / std::max<double>(1, reviewed_);
    for (size_t i = 0; i < remaining.size(); ++i) {
      Entry& entry = *remaining[i];
      constexpr const char* kWhat = "the record of the review stage";
      TRY_ASSIGN(entry.score, JsonNumber(reviews[i], "score", kWhat));
      TRY_ASSIGN(const bool passed, JsonBool(reviews[i], "passed", kWhat));
      // Some are judged nevertheless, to measure how many good kernels the reviewers stop.
      Random audit = random_.Fork(fmt::format("audit {}", plan_.slots[entry.slot].number));
      entry.is_audited = !passed && audit.Unit() < kAuditShare;
      TRY(RecordStage(entry, "review", passed, reviews[i], each, !passed && !entry.is_audited));
    }
    return {};
  }

  /// The reviews of all entries. Asks concurrently for those that are not recorded yet.
  Result<std::vector<Json>> Reviews(const std::vector<Entry*>& entries) {
    std::vector<std::future<Result<review::Review>>> asked(entries.size());
    std::vector<Json> reviews(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      TRY_ASSIGN(const auto recorded, RecordedStage(entries[i]->id, "review"));
      if (!recorded) continue;
      TRY_ASSIGN(reviews[i], ParseJson(recorded->detail, "the record of the review stage"));
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!reviews[i].is_null()) continue;
      review::Subject subject;
      subject.source = entries[i]->source;
      subject.is_python = parts_.evaluator.form() == Form::kPython;
      subject.operation = options_.operation;
      subject.sample = SampleOf(entries[i]->source);
      review::ReviewOptions options = options_.review;
      // nvcc has compiled a CUDA file by now; a Python program is compiled when it is judged.
      if (!subject.is_python) {
        std::erase(options.aspects, review::Aspect::kCompile);
        options.compiled = true;
      }
      asked[i] = std::async(std::launch::async, [this, subject = std::move(subject), options] {
        return review::AskReviewers(subject, parts_.reviewers, options);
      });
    }
    Status status;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!asked[i].valid()) continue;
      const auto found = asked[i].get();  // until all have answered, only askers use the archive
      if (found) reviews[i] = ToJson(*found);
      if (!found) status = tl::unexpected(found.error());
    }
    TRY(status);
    return reviews;
  }

  /// The work of earlier candidates that were accepted. Of those that were rejected, a variant may
  /// be right where they are not.
  Result<std::map<std::string, int64_t>> KnownWorks() const {
    std::set<int64_t> accepted;
    for (const archive::Candidate& one : before_) {
      if (one.objective) accepted.insert(one.id);
    }
    std::map<std::string, int64_t> works;
    TRY_ASSIGN(const auto stages, parts_.archive.Stages());
    for (const archive::Stage& stage : stages) {
      if (stage.name != kScreenStage || !accepted.contains(stage.candidate)) continue;
      TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kScreenRecord));
      const std::string work = JsonString(detail, "work", kScreenRecord).value_or("");
      if (!work.empty()) works.try_emplace(work, stage.candidate);
    }
    return works;
  }

  /// Judges all that are left cheaply. Those that are wrong get their verdict now; those that do
  /// the work of an earlier candidate are dropped.
  Status Screen() {
    std::vector<int64_t> wrong;
    TRY_ASSIGN(const auto works, KnownWorks());
    for (Entry& entry : entries_) {
      if (entry.is_out) continue;
      TRY(ReportStage(fmt::format("screening candidate {}", entry.id)));
      TRY_ASSIGN(const Screening screening, parts_.evaluator.Screen(entry.source));
      if (!screening.right) {  // the verdict has the stage "judge"
        entry.is_out = true;
        wrong.push_back(entry.id);
        continue;
      }
      Json detail = Json::object();
      if (screening.estimate) detail["estimated_us"] = *screening.estimate;
      if (!screening.work.empty()) detail["work"] = screening.work;
      TRY(RecordStage(entry, kScreenStage, true, detail, screening.seconds, false));
      entry.estimate = screening.estimate;
      const auto same = options_.novelty ? works.find(screening.work) : works.end();
      if (same == works.end()) continue;
      TRY(RecordStage(entry, "effect", false, Json{{"same_work_as", same->second}}, 0, true));
      ++copies_;
    }
    return parts_.evaluator.Evaluate(wrong);
  }

  /// Chooses the candidates to judge: the fastest first, or, if times are unknown, those that
  /// reviewers like best.
  Status Choose() {
    std::vector<Entry*> candidates, audited;
    for (Entry& entry : entries_) {
      if (!entry.is_out) (entry.is_audited ? audited : candidates).push_back(&entry);
    }
    const double unknown = std::numeric_limits<double>::infinity();
    std::stable_sort(candidates.begin(), candidates.end(),
                     [unknown](const Entry* a, const Entry* b) {
                       return std::pair(a->estimate.value_or(unknown), -a->score) <
                              std::pair(b->estimate.value_or(unknown), -b->score);
                     });
    // On the emulator, screening was all the judging, except for a new best.
    const size_t places = !parts_.evaluator.measures() ? candidates.size()
                                                       : static_cast<size_t>(options_.evaluations);
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (i < places) {
        chosen_.push_back(candidates[i]->id);
        continue;
      }
      Json detail{{"score", candidates[i]->score}, {"rank", i + 1}, {"places", places}};
      if (candidates[i]->estimate) detail["estimated_us"] = *candidates[i]->estimate;
      TRY(RecordStage(*candidates[i], "selection", false, detail, 0, true));
    }
    for (const Entry* entry : audited) chosen_.push_back(entry->id);
    return {};
  }

  /// Rewards models and hints for the results of their proposals, in the order of the slots.
  Status Learn() {
    std::map<int64_t, double> values;
    for (const archive::Candidate& one : before_) {
      if (one.objective) values[one.id] = *one.objective;
    }
    std::vector<archive::Candidate> results;  // of entries_
    for (const Entry& entry : entries_) {
      TRY_ASSIGN(results.emplace_back(), parts_.archive.Get(entry.id));
    }
    const archive::Candidate* const best = BestOf(results);
    std::map<size_t, double> rewards;  // by slot
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      const archive::Candidate& candidate = results[i];
      double reward = 0;
      if (candidate.objective) {
        AddMember(state_.islands[plan_.island], {candidate.id, *candidate.objective});
        const double parent = values.at(plan_.slots[entry.slot].parents.front());
        // Others that are faster than the best before were not judged at all settings.
        const bool is_new_best = &candidate == best && *candidate.objective < best_before_;
        reward = is_new_best                     ? kNewBest
                 : *candidate.objective < parent ? kBetterThanParent
                                                 : kRight;
        accepted_.push_back(candidate);
      }
      rewards[entry.slot] = std::max(rewards[entry.slot], reward);
      for (const int64_t hint : entry.hints) state_.hints.Reward(hint, reward);
    }
    for (size_t i = 0; i < plan_.slots.size(); ++i) {
      if (!proposed_[i].not_asked) state_.ensemble.Reward(plan_.slots[i].model, rewards[i]);
    }
    return {};
  }

  /// Tunes a new best. Asks no model.
  Status Polish() {
    if (options_.polish <= 0 || parts_.evaluator.form() != Form::kCuda) return {};
    const archive::Candidate* best = BestOf(accepted_);
    if (best == nullptr || *best->objective >= best_before_) return {};
    TRY(ReportStage(fmt::format("tuning candidate {}", best->id)));
    TRY_ASSIGN(const auto ids, AddVariants(parts_.archive, best->id, options_.polish, number_,
                                           random_.Fork("polish")));
    TRY(parts_.evaluator.EvaluateVariants(best->id, ids));
    for (const int64_t id : ids) {
      TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(id));
      // Variants that are no better than their parent do not join the island.
      if (candidate.objective && *candidate.objective < *best->objective) {
        AddMember(state_.islands[plan_.island], {candidate.id, *candidate.objective});
      }
    }
    return {};
  }

  Status End() {
    Migrate(state_.islands, number_ - 1, options_.migrate_every);
    if (options_.new_hint_every > 0 && number_ % options_.new_hint_every == 0) TRY(NewHint());
    if (options_.reading == Reading::kAuto) {
      const auto recorded = options_.recorded_reading.find(number_ + 1);
      if (recorded != options_.recorded_reading.end()) {
        state_.reads = recorded->second;
      } else {
        TRY_ASSIGN(const auto stages, parts_.archive.Stages());
        TRY_ASSIGN(const CascadeTally tally, TallyOf(stages));
        state_.reads = ReviewPays(tally);
      }
    }
    state_.generation = number_;
    return {};
  }

  /// Asks for a new hint, based on the hints that earned most.
  Status NewHint() {
    std::vector<const Hint*> best;
    for (const Hint& hint : state_.hints.all()) {
      if (hint.tried > 0 && hint.earned > 0) best.push_back(&hint);
    }
    if (best.empty()) return {};
    std::stable_sort(best.begin(), best.end(),
                     [](const Hint* a, const Hint* b) { return Expected(*a) > Expected(*b); });
    best.resize(std::min<size_t>(best.size(), 6));
    std::vector<TriedHint> shown;
    std::vector<int64_t> parents;
    for (const Hint* hint : best) {
      shown.push_back({hint->text, hint->tried, hint->earned});
      parents.push_back(hint->id);
    }
    TRY(ReportStage("asking for a new hint"));
    llm::Request request = HintPrompt(options_.operation, shown);
    request.sample = number_;
    const auto answer = parts_.reviewers.front()->Ask("hints", request);
    if (!answer) return {};  // if no model can be asked, the next generation reports it
    auto text = ReadHint(answer->text);
    if (!text) return {};
    if (state_.hints.Add(*std::move(text), parents)) state_.hints.Retire(kMostHints);
    return {};
  }

  Result<Json> Facts(double seconds) const {
    Json models = Json::array();
    const auto& members = state_.ensemble.members();
    for (size_t i = 0; i < members.size(); ++i) {
      models.push_back({{"name", members[i].name},
                        {"asked", members[i].asked},
                        {"rewarded", members[i].total},
                        {"expected", state_.ensemble.Expected(i)}});
    }
    Json hints = Json::array();
    for (const Hint& hint : state_.hints.all()) {
      if (hint.tried == 0) continue;
      hints.push_back({{"id", hint.id},
                       {"text", hint.text},
                       {"origin", hint.origin},
                       {"tried", hint.tried},
                       {"earned", hint.earned}});
    }
    TRY_ASSIGN(const auto best, parts_.archive.Best());
    return Json{{"generation", number_},
                {"island", state_.islands[plan_.island].id},
                {"asked", plan_.slots.size()},
                {"unusable", unusable_.size()},
                {"problems", unusable_},
                {"copies", copies_},
                {"reads", reads_},
                {"reviewed", reviewed_},
                {"evaluated", chosen_.size()},
                {"accepted", accepted_.size()},
                {"best", best ? Json(*best->objective) : Json()},
                {"seconds", seconds},
                {"models", std::move(models)},
                {"hints", std::move(hints)}};
  }

  const EvolutionParts& parts_;
  const EvolutionOptions& options_;
  SearchState& state_;
  RunMemory& memory_;
  const int number_;
  const Random random_;
  const bool reads_ =
      options_.reading == Reading::kOn || (options_.reading == Reading::kAuto && state_.reads);

  std::vector<archive::Candidate> before_;
  double best_before_ = 0;
  Plan plan_;
  std::vector<Proposed> proposed_;
  std::vector<Json> unusable_;
  std::vector<Entry> entries_;
  std::vector<int64_t> chosen_;
  std::vector<archive::Candidate> accepted_;  // proposals that were accepted
  int copies_ = 0, reviewed_ = 0;
  std::vector<int64_t> known_ids_;   // the candidates that proposals are compared with
  std::vector<Shingles> known_;      // the same
  std::vector<size_t> known_slots_;  // of those of this generation
};

}  // namespace

Result<Json> RunGeneration(const EvolutionParts& parts, const EvolutionOptions& options,
                           SearchState& state, RunMemory& memory) {
  return Generation(parts, options, state, memory).Run();
}

}  // namespace cupel::evolve
