// The events of work that consists of parts which report their own progress.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>

#include "base/events.h"

namespace cupel {

/// Receives the events of the parts. Once ShowWhole was called, a part's progress only replaces the
/// stage of the whole. Before that, it is passed on. Notes are passed on. Thread-safe.
class PartEvents final : public Events {
 public:
  /// Borrows `events`.
  explicit PartEvents(Events& events) : events_(events) {}

  void Show(const Progress& part) override {
    const std::lock_guard lock(mutex_);
    if (!whole_) return events_.Show(part);
    whole_->stage = part.stage;
    events_.Show(*whole_);
  }
  void Note(std::string_view line) override { events_.Note(line); }
  /// Without a stage, the last one stays.
  void ShowWhole(Progress whole) {
    const std::lock_guard lock(mutex_);
    if (whole.stage.empty() && whole_) whole.stage = whole_->stage;
    whole_ = std::move(whole);
    events_.Show(*whole_);
  }

 private:
  Events& events_;
  std::mutex mutex_;
  std::optional<Progress> whole_;
};

}  // namespace cupel
