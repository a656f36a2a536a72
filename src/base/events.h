// What long work reports while it runs: its progress, and remarks. Every layer reports to the same
// interface; the command line shows it on a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cupel {

/// The state of some work.
struct Progress {
  std::string stage;  // "judging multi-3"
  int64_t done = 0;
  std::optional<int64_t> total = {};  // none: unknown
  std::string unit = {};              // of `done`: "candidates", "trials"
  std::string result = {};            // "best 11.2 us (estimate), 1.8x"; may be empty
  std::optional<double> left = {};    // seconds; none: extrapolated from the mean speed
};

/// Ignores everything. Subclasses must be thread-safe: several threads may report at once.
class Events {
 public:
  Events() = default;
  virtual ~Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  virtual void Show(const Progress&) {}
  /// A remark for the user, one line. Hostile text in it is not escaped.
  virtual void Note(std::string_view) {}
};

}  // namespace cupel
