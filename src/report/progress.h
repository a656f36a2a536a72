// The progress of long work. On a terminal one line that is redrawn in place, at most ten times a
// second, never wraps, and is erased at the end; elsewhere (a log, a pipe) plain lines, seldom.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cupel::report {

/// What there is to say now.
struct ProgressState {
  std::string activity;  // "judging multi-3"
  int64_t done = 0;
  std::optional<int64_t> total;  // unknown: no share, no time left
  std::string unit;              // "candidates", "trials"
  std::string best;              // "best 11.2 us (estimate), 1.8x"; may be empty
  std::optional<double> left;    // seconds, where more is known than the mean pace
};

/// How a Progress meets the world; the defaults are the real one.
struct ProgressOptions {
  bool quiet = false;
  int fd = 2;
  std::optional<bool> terminal;  // else: whether fd is one (and TERM is not "dumb")
  std::chrono::milliseconds redraw{100};
  std::chrono::milliseconds plain_every{5000};
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::string_view)> write;
  std::function<int()> columns;  // asked at each redraw: windows change
};

/// Not thread-safe. The destructor finishes.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  /// The real one.
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap: draws only when it is time.
  void Update(const ProgressState& state);
  /// A line that stays ("new best: …"), above the progress line. Silent when quiet.
  void Note(std::string_view line);
  /// Removes the progress line. Further updates start anew.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& line);
  void Erase();
  std::string Compose(const ProgressState& state, Clock::time_point now) const;

  ProgressOptions options_;
  bool terminal_ = false;
  bool drawn_ = false;
  Clock::time_point started_;
  std::optional<Clock::time_point> last_;
  int64_t first_done_ = 0;  // resumed work does not count for the speed
  bool begun_ = false;
  std::string plain_;  // the last plain line
};

}  // namespace cupel::report
