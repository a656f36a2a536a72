// Shows the progress of long work. On a terminal this is one line, redrawn in place at most ten
// times a second and erased at the end; it never wraps. Otherwise (a log, a pipe) it prints a plain
// line every few seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/events.h"

namespace cupel::term {

/// The environment of a ProgressLine, replaceable in tests. The defaults use the real clock and
/// terminal.
struct ProgressOptions {
  bool quiet = false;
  int fd = 2;
  std::optional<bool> terminal;  // none: detected from fd and TERM
  std::chrono::milliseconds redraw{100};
  std::chrono::milliseconds plain_every{5000};
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::string_view)> write;
  std::function<int()> columns;  // called at each redraw, since windows are resized
};

/// Not thread-safe. The destructor calls Finish.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOptions options);
  /// With the default environment.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Cheap: only draws if enough time has passed.
  void Update(const Progress& state);
  /// Prints a permanent line ("new best: …") above the progress line. Prints nothing if quiet.
  void Note(std::string_view line);
  /// Removes the progress line. Later updates print a new line.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& line);
  void Erase();
  std::string Compose(const Progress& state, Clock::time_point now) const;

  ProgressOptions options_;
  bool terminal_ = false;
  bool drawn_ = false;
  Clock::time_point started_;
  std::optional<Clock::time_point> last_;
  int64_t first_done_ = 0;  // already done at the start, so not counted for the speed
  bool begun_ = false;
  std::string plain_;  // the last plain line
};

}  // namespace cupel::term
