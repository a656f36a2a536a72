// Shows what a use case reports: its progress on one progress line, its remarks above it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "app/events.h"
#include "report/objective_kind.h"
#include "term/progress.h"

namespace cupel::cli {

class ProgressView final : public app::Events {
 public:
  explicit ProgressView(bool quiet) : line_(quiet) {}

  void Show(const assay::Progress& progress) override {
    const std::lock_guard lock(mutex_);
    if (in_run_) {
      run_.activity = progress.stage;  // keep the counts of the run
      return line_.Update(run_);
    }
    term::ProgressState state;
    state.activity = progress.stage;
    state.unit = "trials";
    state.done = progress.done;
    if (progress.total > 0) state.total = progress.total;
    line_.Update(state);
  }

  void Show(const evolve::RunProgress& progress) override {
    const std::lock_guard lock(mutex_);
    in_run_ = true;
    run_.activity = progress.stage;
    if (progress.generations > 0) {
      run_.unit = "generations";
      run_.done = std::max(0, progress.generation - 1);
      run_.total = progress.generations;
    } else {
      run_.unit = "candidates";
      run_.done = progress.counts.done;
      if (progress.budget > 0) run_.total = progress.budget;
    }
    run_.best.clear();
    const std::string best = report::ObjectiveText(progress.objective, progress.best_value);
    const double gain = progress.best_value > 0 ? progress.start / progress.best_value : 0;
    if (progress.best_value > 0) {
      run_.best = fmt::format("{} accepted, {} rejected, {} dropped, best {}, {:.2f}x",
                              progress.counts.accepted, progress.counts.rejected,
                              progress.counts.dropped, best, gain);
      if (progress.usd > 0) run_.best += fmt::format(", ${:.2f}", progress.usd);
    }
    line_.Update(run_);
    if (progress.best > 1 && progress.best != noted_) {
      noted_ = progress.best;
      line_.Note(
          fmt::format("new best: candidate {}, {}, {:.2f}x the start", progress.best, best, gain));
    }
  }

  void Show(const term::ProgressState& progress) override {
    const std::lock_guard lock(mutex_);
    line_.Update(progress);
  }

  void Note(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    line_.Note(line);
  }

  /// Removes the progress line, so that the caller can print.
  void End() {
    const std::lock_guard lock(mutex_);
    line_.Finish();
  }

 private:
  std::mutex mutex_;
  term::Progress line_;
  term::ProgressState run_;
  bool in_run_ = false;
  int64_t noted_ = 0;
};

}  // namespace cupel::cli
