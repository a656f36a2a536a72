// Takes each candidate of a run from source to verdict: build, judge, measure, archive. A candidate
// is first judged cheaply: one trial at the search settings. Of those that are then better than the
// best so far, the best is judged again, on all settings with fresh cases, before it is the new
// best. All state that lasts is in the archive, so a run can resume after a kill at any time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <semaphore>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "assay/assay.h"
#include "base/json.h"
#include "base/part_events.h"
#include "device/device.h"
#include "evolve/form.h"
#include "evolve/objective.h"
#include "os/temp_dir.h"

namespace cupel::evolve {

/// What a run's progress contains in addition to what the archive says.
struct RunScale {
  int budget = 0;                       // total candidates; 0: unknown
  int generation = 0, generations = 0;  // 0: the run has none
  double usd = 0;                       // spent on models
};

/// Half of the machine's cores, but at least 2 and at most 8: a compiler takes up to 2 GB.
int CompilersAtOnce();

struct EvaluatorOptions {
  device::Description device;            // the target of the kernels
  Form form = Form::kCuda;               // of all candidates
  int builds_ahead = CompilersAtOnce();  // concurrent compilations, at least 1
  uint64_t seed = 0;
  bool user_seed = false;  // draw cases from the seed, not from the pool
  std::stop_token stop;    // Build and Evaluate then end with kCancelled
  /// "8.27 us (estimate)": a value of the objective for progress and for prompts.
  std::function<std::string(double)> objective_text;
  /// Folder for candidate sources, for the compiler and for users.
  std::filesystem::path source_folder;
  /// Linter remarks on an accepted kernel, as lines. If empty, no linter runs.
  std::function<std::string(const std::filesystem::path&)> remarks = {};
  /// The GPU profile of an accepted kernel, as a page; empty if there is none. If not set, prompts
  /// show the judge's counts instead. `judged` has a plan. Errors: kCancelled.
  std::function<Result<std::string>(const assay::Judged& judged)> profile = {};
};

/// Borrowed.
struct RunParts {
  archive::Archive& archive;
  assay::Assay& assay;
  Objective& objective;
  PartEvents& events;  // also of the assay
  /// The emulator alone, to screen candidates: `&assay` if that is an emulator; null if only a GPU
  /// judges.
  assay::Assay* emulator = nullptr;
};

/// The kinds of settings at which a search compares candidates, of those that a run judges (empty:
/// all): the single ones, which the paper times, if it judges them.
std::vector<task::SettingKind> ComparedKinds(std::vector<task::SettingKind> kinds);

/// What the cheap judgement of a source said.
struct Screening {
  bool compiles = false, right = false;
  std::optional<double> estimate;  // us of a call; only if it is right
  std::string lessons;             // if it is not right: what is wrong with it
  std::string work;                // if it is right: Assay::RequestedWork; empty: unknown
  double seconds = 0;              // that judging took, without the compiler
};

/// Not thread-safe, except where functions say so.
class Evaluator {
 public:
  /// `question`: task, direction, setting kinds and trials of the final judgement.
  Evaluator(const RunParts& parts, assay::Question question, EvaluatorOptions options)
      : parts_(parts),
        question_(std::move(question)),
        options_(std::move(options)),
        compilers_(options_.builds_ahead) {}

  /// Compiles these candidates, several at a time; earlier builds come from the cache. Calls `each`
  /// in the order of `ids`, while the next ones compile.
  Status Build(std::span<const int64_t> ids,
               const std::function<Status(int64_t id, const assay::Candidate& built)>& each);
  /// Compiles a source into the cache of builds, where the functions below find it. Waits while
  /// EvaluatorOptions::builds_ahead others compile. Any thread.
  void CompileAhead(const std::string& source);
  /// Compiles a source, and judges it on the emulator in one trial at the search settings. Does not
  /// use the archive. The result is kept for the next call and for Evaluate, until Forget().
  Result<Screening> Screen(const std::string& source);
  /// What an interrupted run learned when it screened this source: Screen() takes it, instead of
  /// judging again, if a GPU measures. (On the emulator, screening is all the judging.)
  void Recall(const std::string& source, Screening known);
  /// Compiles a source, but does not judge it: `right` is then unknown, and false.
  Result<Screening> Compile(const std::string& source);
  bool can_screen() const { return parts_.emulator != nullptr; }
  /// Whether a GPU measures what the emulator only estimates.
  bool measures() const { return parts_.emulator != &parts_.assay; }
  void Forget() {
    screened_.clear();
    recalled_.clear();
  }

  /// Judges the candidates of `ids`, in order, and promotes at most one of them to the new best.
  /// Skips those that have a verdict or were dropped.
  Status Evaluate(std::span<const int64_t> ids);
  /// The same for variants of `base` by the tuner. Drops those that request the same work as `base`
  /// or as an earlier variant: their changed constants have no effect.
  Status EvaluateVariants(int64_t base, std::span<const int64_t> ids);

  /// Profiles an accepted candidate on the GPU, unless that was done, and adds the stage "profile"
  /// with the page that prompts show. Does nothing without EvaluatorOptions::profile.
  Status Profile(int64_t id);

  /// The file of a candidate that was judged.
  std::filesystem::path SourcePath(int64_t candidate) const;
  RunScale& scale() { return scale_; }
  Form form() const { return options_.form; }
  const std::function<std::string(double)>& objective_text() const {
    return options_.objective_text;
  }
  /// Reports the run's progress, and a new best kernel.
  Status Report(const std::string& stage);
  void Note(const std::string& text) { parts_.events.Note(text); }
  /// Repeats the last Report() with a new stage. Does not use the archive.
  void ShowAgain(const std::string& stage) { parts_.events.Show({stage}); }

 private:
  /// A candidate that was judged cheaply.
  struct Compared {
    int64_t id = 0;
    std::string source = {};
    assay::Candidate built;
    assay::Judged judged = {};
    std::optional<Standing> standing = {};  // only if it is right, and can be compared
    double seconds = 0;                     // that judging took
  };
  Status Compare(int64_t id, const assay::Candidate& built, std::vector<Compared>& better);
  Status Promote(std::vector<Compared> better);
  Status Record(const Compared& one);
  void KeepForProfile(const Compared& one);
  Json PageOf(const Compared& one, const std::string& measured,
              std::span<const archive::Sample> samples);
  archive::Stage StageOf(const Compared& one);
  Result<std::optional<Champion>> BestSoFar();
  /// A source that was compiled, and perhaps judged, before it became a candidate.
  struct Screened {
    assay::Candidate built;
    Screening screening;
    std::optional<assay::Judged> judged;  // until a candidate uses it
  };
  Result<Screened*> Built(const std::string& source);
  Result<assay::Judged> JudgeForSearch(const assay::Candidate& built, const std::string& source);
  Result<std::optional<std::string>> WorkOf(const assay::Candidate& built);
  uint64_t WorkSeed() const;
  assay::Question SearchQuestion() const;
  assay::Question FinalQuestion(int64_t candidate) const;
  Status WriteSource(int64_t id) const;
  Result<std::filesystem::path> WriteUnder(const std::filesystem::path& folder,
                                           const std::string& source) const;

  RunParts parts_;
  assay::Question question_;
  EvaluatorOptions options_;
  std::counting_semaphore<> compilers_;
  RunScale scale_;
  int64_t noted_ = 0;                          // the last new best that was reported
  std::optional<assay::Candidate> champion_;   // the best so far, built
  std::map<std::string, Screened> screened_;   // by the source's hash
  std::map<std::string, Screening> recalled_;  // likewise
  std::map<int64_t, assay::Judged> judged_;    // candidates that wait for a profile
  std::map<int64_t, std::string> remarks_;     // the linter's, which takes seconds
  std::optional<os::TempDir> screening_;       // of their sources
};

}  // namespace cupel::evolve
