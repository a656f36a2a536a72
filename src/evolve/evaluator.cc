// SPDX-License-Identifier: Apache-2.0
#include "evolve/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/lanes.h"
#include "base/random.h"
#include "evolve/candidates.h"
#include "evolve/comparisons.h"
#include "evolve/feedback.h"
#include "evolve/lessons.h"
#include "os/files.h"
#include "records/json.h"

namespace cupel::evolve {

namespace {

/// All sources have one name, so that a screened source is found in the cache of builds when it has
/// become a candidate.
constexpr const char* kName = "kernel";
constexpr size_t kMostJudged = 32;  // whose plans wait for a profile

}  // namespace

std::vector<task::SettingKind> ComparedKinds(std::vector<task::SettingKind> kinds) {
  constexpr auto kSingle = task::SettingKind::kSingle;
  if (kinds.empty() || std::ranges::find(kinds, kSingle) != kinds.end()) return {kSingle};
  return kinds;
}

int CompilersAtOnce() { return std::clamp(static_cast<int>(Cores() / 2), 2, 8); }

std::filesystem::path Evaluator::SourcePath(int64_t candidate) const {
  return options_.source_folder / fmt::format("{:04}", candidate) /
         fmt::format("{}{}", kName, SuffixOf(options_.form));
}

/// Writes a candidate's source where it is compiled, and where users find it.
Status Evaluator::WriteSource(int64_t id) const {
  TRY_ASSIGN(const std::string source, parts_.archive.Source(id));
  TRY(WriteUnder(SourcePath(id).parent_path(), source));
  return {};
}

/// Writes a source into a folder of its own, under the name that all sources have.
Result<std::filesystem::path> Evaluator::WriteUnder(const std::filesystem::path& folder,
                                                    const std::string& source) const {
  auto path = folder / fmt::format("{}{}", kName, SuffixOf(options_.form));
  TRY(os::MakeFolders(folder));
  TRY(os::WriteFileAtomically(path, source));
  return path;
}

void Evaluator::CompileAhead(const std::string& source) {
  compilers_.acquire();
  const auto compile = [&]() -> Status {
    TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
    TRY_ASSIGN(const auto path, WriteUnder(folder.path(), source));
    TRY(parts_.assay.Build(path));
    return {};
  };
  if (!options_.stop.stop_requested()) (void)compile();  // the build that follows reports errors
  compilers_.release();
}

Result<Evaluator::Screened*> Evaluator::Built(const std::string& source) {
  const std::string hash = Sha256Hex(source);
  auto found = screened_.find(hash);
  if (found == screened_.end()) {
    if (!screening_) {
      TRY_ASSIGN(screening_, os::TempDir::Create());
    }
    TRY_ASSIGN(const auto path, WriteUnder(screening_->path() / hash.substr(0, 16), source));
    TRY_ASSIGN(assay::Candidate built, parts_.assay.Build(path));
    if (options_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    Screening screening;
    screening.compiles = !std::holds_alternative<build::BuildFailure>(built.built);
    found = screened_.emplace(hash, Screened{std::move(built), screening, {}}).first;
  }
  return &found->second;
}

Result<Screening> Evaluator::Compile(const std::string& source) {
  TRY_ASSIGN(Screened* const screened, Built(source));
  // What does not compile is judged without an engine.
  if (!screened->screening.compiles) return Screen(source);
  return screened->screening;
}

void Evaluator::Recall(const std::string& source, Screening known) {
  if (measures()) recalled_.insert_or_assign(Sha256Hex(source), std::move(known));
}

Result<Screening> Evaluator::Screen(const std::string& source) {
  TRY_ASSIGN(Screened* const screened, Built(source));
  Screening& screening = screened->screening;
  const bool is_known = screening.right || !screening.lessons.empty();
  if (is_known) return screening;
  if (const auto recalled = recalled_.find(Sha256Hex(source)); recalled != recalled_.end()) {
    screening = recalled->second;
    return screening;
  }
  const auto start = std::chrono::steady_clock::now();
  const assay::Question search = SearchQuestion();
  const bool beside_gpu = parts_.emulator != nullptr && search.emulator != nullptr;
  assay::Assay& assay = parts_.emulator != nullptr ? *parts_.emulator : parts_.assay;
  TRY_ASSIGN(screened->judged,
             assay.Judge(screened->built, beside_gpu ? search.emulator->question : search));
  const records::Verdict& verdict = screened->judged->verdict;
  screening.right = verdict.accepted();
  if (screening.right) {
    screening.estimate = EstimateOf(verdict);
    TRY_ASSIGN(const auto work, assay.RequestedWork(screened->built, search, WorkSeed()));
    screening.work = work.value_or("");
  } else {
    screening.lessons =
        Lessons(verdict, source, std::get_if<build::BuildFailure>(&screened->built.built));
  }
  screening.seconds = SecondsSince(start);
  return screening;
}

/// The cheap judgement of a candidate, by all engines of the run.
Result<assay::Judged> Evaluator::JudgeForSearch(const assay::Candidate& built,
                                                const std::string& source) {
  const assay::Question search = SearchQuestion();
  const auto found = screened_.find(Sha256Hex(source));
  if (found == screened_.end() || !found->second.judged) return parts_.assay.Judge(built, search);
  assay::Judged known = *std::exchange(found->second.judged, std::nullopt);
  known.verdict.kernel_path = built.path.string();
  const bool complete = !measures() || search.emulator == nullptr ||
                        std::holds_alternative<build::BuildFailure>(built.built);
  if (complete) return known;
  return parts_.assay.JudgeAfter(built, search, std::move(known));
}

/// A hash of the work that a candidate requests; nullopt if it is unknown.
Result<std::optional<std::string>> Evaluator::WorkOf(const assay::Candidate& built) {
  return parts_.assay.RequestedWork(built, SearchQuestion(), WorkSeed());
}

uint64_t Evaluator::WorkSeed() const { return Random(options_.seed).Fork("work")(); }

Status Evaluator::EvaluateVariants(int64_t base, std::span<const int64_t> ids) {
  std::map<std::string, int64_t> known;  // work -> the first candidate that requests it
  std::vector<Compared> better;
  const auto look = [&](int64_t id, const assay::Candidate& built) -> Status {
    const auto start = std::chrono::steady_clock::now();
    TRY_ASSIGN(const auto work, WorkOf(built));
    const int64_t first = work ? known.try_emplace(*work, id).first->second : id;
    TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(id));
    if (candidate.status == archive::CandidateStatus::kDone) return {};
    if (first == id) return Compare(id, built, better);
    return parts_.archive.Drop(
        {id, "effect", false, DumpJson(Json{{"same_work_as", first}}), SecondsSince(start)});
  };
  std::vector<int64_t> all = {base};
  all.insert(all.end(), ids.begin(), ids.end());
  TRY(Build(all, look));
  return Promote(std::move(better));
}

Status Evaluator::Build(
    std::span<const int64_t> ids,
    const std::function<Status(int64_t id, const assay::Candidate& built)>& each) {
  for (const int64_t id : ids) {
    TRY(WriteSource(id));
  }
  std::deque<std::future<Result<assay::Candidate>>> builds;
  size_t next = 0;
  for (const int64_t id : ids) {
    while (next < ids.size() && builds.size() < static_cast<size_t>(options_.builds_ahead)) {
      builds.push_back(std::async(std::launch::async, [this, path = SourcePath(ids[next])] {
        return parts_.assay.Build(path);
      }));
      ++next;
    }
    TRY(Report(fmt::format("building candidate {}", id)));
    Result<assay::Candidate> built = builds.front().get();
    builds.pop_front();
    if (!built) return tl::unexpected(built.error());
    if (options_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    TRY(each(id, *built));
  }
  return {};
}

Status Evaluator::Evaluate(std::span<const int64_t> ids) {
  std::vector<int64_t> waiting;
  for (const int64_t id : ids) {
    TRY_ASSIGN(const archive::Candidate candidate, parts_.archive.Get(id));
    if (candidate.status != archive::CandidateStatus::kDone) waiting.push_back(id);
  }
  std::vector<Compared> better;
  TRY(Build(waiting,
            [&](int64_t id, const assay::Candidate& built) { return Compare(id, built, better); }));
  return Promote(std::move(better));
}

/// Judges a candidate cheaply, at the search settings, and compares it with the best so far. One
/// that is better waits in `better`; all others get their verdict.
Status Evaluator::Compare(int64_t id, const assay::Candidate& built,
                          std::vector<Compared>& better) {
  TRY(parts_.archive.MarkEvaluating(id));
  TRY(Report(fmt::format("judging candidate {}", id)));
  const auto start = std::chrono::steady_clock::now();
  Compared compared{.id = id, .built = built};
  TRY_ASSIGN(compared.source, parts_.archive.Source(id));
  TRY_ASSIGN(const auto best, parts_.archive.Best());
  const ComparedWith with{best ? best->id : 0, options_.device.full_name};
  if (measures()) {
    TRY_ASSIGN(auto kept, FindComparison(parts_.archive, id, with));
    if (kept) {
      compared.judged.verdict = std::move(kept->verdict);
      compared.judged.verdict.kernel_path = built.path.string();
      compared.standing = std::move(kept->standing);
      better.push_back(std::move(compared));
      return {};
    }
  }
  TRY_ASSIGN(compared.judged, JudgeForSearch(built, compared.source));
  records::Verdict& verdict = compared.judged.verdict;
  if (verdict.decision == records::Decision::kAccepted) {
    TRY_ASSIGN(auto champion, BestSoFar());
    if (champion) champion->comparison += static_cast<int>(better.size());
    TRY_ASSIGN(compared.standing,
               parts_.objective.Measure(built, verdict, SearchQuestion(), champion));
    if (compared.standing && compared.standing->refused) {
      verdict.decision = records::Decision::kRejected;
      verdict.reasons.push_back(*compared.standing->refused);
      compared.standing.reset();
    }
  }
  compared.seconds = SecondsSince(start);
  if (!compared.standing || !compared.standing->is_better) return Record(compared);
  if (measures()) {
    TRY(KeepComparison(parts_.archive, id, with, {verdict, *compared.standing},
                       std::exchange(compared.seconds, 0)));
  }
  better.push_back(std::move(compared));
  return {};
}

/// Judges the best of those that are better than the best so far at all settings, on fresh cases,
/// as that costs most. Judges the next one only if it is rejected.
Status Evaluator::Promote(std::vector<Compared> better) {
  std::ranges::stable_sort(
      better, {}, [](const Compared& one) { return std::pair(one.standing->value, one.id); });
  bool is_found = false;
  for (Compared& one : better) {
    if (is_found) {
      one.standing->is_better = false;
    } else {
      const auto start = std::chrono::steady_clock::now();
      ShowAgain(fmt::format("judging candidate {} at all settings", one.id));
      KeepForProfile(one);
      TRY_ASSIGN(one.judged, parts_.assay.Judge(one.built, FinalQuestion(one.id)));
      one.seconds += SecondsSince(start);
      is_found = one.judged.verdict.decision == records::Decision::kAccepted;
    }
    TRY(Record(one));
  }
  return {};
}

/// A profile is about the plan of the cheap judgement, as after a kill.
void Evaluator::KeepForProfile(const Compared& one) {
  if (!options_.profile || !one.judged.plan) return;
  if (!judged_.try_emplace(one.id, one.judged).second) return;
  if (judged_.size() > kMostJudged) judged_.erase(judged_.begin());
}

/// What later prompts show of an accepted candidate; `measured`: a profile on the GPU, or nothing.
Json Evaluator::PageOf(const Compared& one, const std::string& measured,
                       std::span<const archive::Sample> samples) {
  const records::Verdict& verdict = one.judged.verdict;
  std::string remarks;
  if (options_.remarks) {
    const auto [known, is_new] = remarks_.try_emplace(one.id);
    if (is_new) known->second = options_.remarks(SourcePath(one.id));
    remarks = known->second;
  }
  Json detail{{"feedback", FeedbackPage({.verdict = verdict,
                                         .device = options_.device,
                                         .source = one.source,
                                         .objective = "",
                                         .measured = measured,
                                         .remarks = remarks,
                                         .samples = samples,
                                         .plan = one.judged.plan ? &*one.judged.plan : nullptr,
                                         .planned_setting = one.judged.planned_setting})}};
  const Limit limit = LimitOf(verdict, measured);
  if (!limit.name.empty()) detail.update({{"bottleneck", limit.name}, {"bound", limit.bound}});
  return detail;
}

/// The "judge" stage of a candidate, with the text that later prompts show: a page if it was
/// accepted, otherwise what is wrong with it.
archive::Stage Evaluator::StageOf(const Compared& one) {
  const records::Verdict& verdict = one.judged.verdict;
  Json detail{{"reasons", records::ToJson(verdict.reasons)}};
  const bool accepted = verdict.decision == records::Decision::kAccepted;
  if (accepted) {
    std::span<const archive::Sample> samples;
    if (one.standing) samples = one.standing->samples;
    detail.update(PageOf(one, "", samples));
  } else {
    detail["lessons"] =
        Lessons(verdict, one.source, std::get_if<build::BuildFailure>(&one.built.built));
  }
  // Of a wrong candidate, screening was all the judging.
  const auto screened = screened_.find(Sha256Hex(one.source));
  const bool screened_out = screened != screened_.end() && !screened->second.screening.right;
  const double seconds = one.seconds + (screened_out ? screened->second.screening.seconds : 0);
  return archive::Stage{one.id, "judge", accepted, DumpJson(detail), seconds};
}

Status Evaluator::Profile(int64_t id) {
  if (!options_.profile) return {};
  TRY_ASSIGN(const auto stages, parts_.archive.StagesOf(id));
  if (std::ranges::find(stages, kProfileStage, &archive::Stage::name) != stages.end()) return {};
  const auto start = std::chrono::steady_clock::now();
  Compared one{.id = id, .built = {}};
  TRY_ASSIGN(one.source, parts_.archive.Source(id));
  if (auto found = judged_.extract(id)) {
    one.judged = std::move(found.mapped());
  } else {
    TRY(WriteSource(id));
    TRY_ASSIGN(one.built, parts_.assay.Build(SourcePath(id)));
    TRY_ASSIGN(one.judged, parts_.assay.Judge(one.built, SearchQuestion()));
  }
  std::string measured;
  if (one.judged.plan && one.judged.verdict.decision == records::Decision::kAccepted) {
    TRY_ASSIGN(measured, options_.profile(one.judged));
  }
  Json detail = Json::object();
  if (!measured.empty()) {
    std::vector<archive::Sample> samples;
    TRY_ASSIGN(const auto verdict, parts_.archive.LatestVerdict(id));
    if (verdict) {
      TRY_ASSIGN(samples, parts_.archive.Samples(verdict->id));
    }
    detail = PageOf(one, measured, samples);
  }
  return parts_.archive.AddStage({id, kProfileStage, true, DumpJson(detail), SecondsSince(start)});
}

Status Evaluator::Record(const Compared& one) {
  const records::Verdict& judged = one.judged.verdict;
  const std::optional<Standing>& standing = one.standing;
  const bool accepted = judged.decision == records::Decision::kAccepted && standing;
  archive::NewVerdict verdict;
  verdict.decision = records::Name(judged.decision);
  verdict.json = DumpJson(records::ToJson(judged));
  verdict.objective_kind = parts_.objective.Kind();
  verdict.fresh_cases = standing && standing->is_better;
  if (accepted) verdict.objective = standing->value;
  TRY_ASSIGN(const int64_t row, parts_.archive.RecordVerdict(one.id, verdict, StageOf(one)));
  if (standing && !standing->samples.empty()) {
    TRY(parts_.archive.AddSamples(row, standing->samples));
  }
  if (accepted && standing->is_better) {
    TRY(parts_.archive.AddEvent(
        "new_best",
        DumpJson(Json{{"candidate", one.id}, {verdict.objective_kind, standing->value}})));
    champion_.reset();
  }
  if (accepted) KeepForProfile(one);
  return Report(fmt::format("candidate {} {}", one.id, verdict.decision));
}

Result<std::optional<Champion>> Evaluator::BestSoFar() {
  TRY_ASSIGN(const auto best, parts_.archive.Best());
  if (!best) return std::optional<Champion>();
  if (!champion_) {
    TRY_ASSIGN(champion_, parts_.assay.Build(SourcePath(best->id)));
  }
  if (std::holds_alternative<build::BuildFailure>(champion_->built)) {
    return Fail(
        ErrorCode::kEnvironment,
        fmt::format("the best kernel, {}, no longer compiles", SourcePath(best->id).string()),
        "restore the file, or the CUDA toolkit that the run started with");
  }
  TRY_ASSIGN(const archive::Counts counts, parts_.archive.Count());
  return std::optional<Champion>(
      Champion{&*champion_, *best->objective, static_cast<int>(counts.accepted)});
}

assay::Question Evaluator::SearchQuestion() const {
  assay::Question question = question_;
  const auto kinds = ComparedKinds(question_.kinds);
  assay::Change(question, [&](assay::Question& one) {
    one.kinds = kinds;
    one.trials = 1;
    one.stop_at_first_failure = true;
    one.distributions.clear();
    one.shadows = one.integers = one.explores = false;
    if (options_.user_seed) one.seed = Random(options_.seed).Fork("search")();
  });
  return question;
}

assay::Question Evaluator::FinalQuestion(int64_t candidate) const {
  assay::Question question = question_;
  assay::Change(question, [&](assay::Question& one) {
    one.stop_at_first_failure = true;
    one.fresh_cases = true;
    if (options_.user_seed) {
      one.seed = Random(options_.seed).Fork(fmt::format("final {}", candidate))();
    }
  });
  return question;
}

Status Evaluator::Report(const std::string& stage) {
  Progress progress{stage};
  TRY_ASSIGN(const archive::Counts counts, parts_.archive.Count());
  if (scale_.generations > 0) {
    progress.unit = "generations";
    progress.done = std::max(0, scale_.generation - 1);
    progress.total = scale_.generations;
  } else {
    progress.unit = "candidates";
    progress.done = counts.done;
    if (scale_.budget > 0) progress.total = scale_.budget;
  }
  TRY_ASSIGN(const auto best, parts_.archive.Best());
  if (!best || *best->objective <= 0) {
    parts_.events.ShowWhole(std::move(progress));
    return {};
  }
  TRY_ASSIGN(const auto lineage, parts_.archive.Lineage(best->id));
  const double start = lineage.empty() ? 0 : lineage.front().objective.value_or(0);
  const std::string value = options_.objective_text(*best->objective);
  const double gain = start / *best->objective;
  progress.result = fmt::format("{} accepted, {} rejected, {} dropped, best {}, {:.2f}x",
                                counts.accepted, counts.rejected, counts.dropped, value, gain);
  if (scale_.usd > 0) progress.result += fmt::format(", ${:.2f}", scale_.usd);
  parts_.events.ShowWhole(std::move(progress));
  if (best->id > 1 && std::exchange(noted_, best->id) != best->id) {
    parts_.events.Note(
        fmt::format("new best: candidate {}, {}, {:.2f}x the start", best->id, value, gain));
  }
  return {};
}

}  // namespace cupel::evolve
