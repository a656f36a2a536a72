// Shows what a use case reports: its progress on one progress line, its remarks above it. What was
// printed before then appears, too, if the output goes into a file or a pipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <mutex>
#include <string_view>

#include "base/events.h"
#include "term/progress.h"

namespace cupel::cli {

class ProgressView final : public Events {
 public:
  explicit ProgressView(bool quiet) : line_(quiet) {}

  void Show(const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    ShowPrinted();
    line_.Update(progress);
  }

  void Note(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    ShowPrinted();
    line_.Note(line);
  }

  /// Removes the progress line, so that the caller can print.
  void End() {
    const std::lock_guard lock(mutex_);
    line_.Finish();
  }

 private:
  /// A failure is reported at the end of the command.
  static void ShowPrinted() { (void)std::fflush(stdout); }

  std::mutex mutex_;
  term::ProgressLine line_;
};

}  // namespace cupel::cli
