// Judges and times many candidates as fast as compilers and GPUs allow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "app/options.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

/// The result for one candidate.
struct Streamed {
  const std::filesystem::path& kernel;
  const std::string& task;
  const std::string& verdict;  // a decision; "error" if cupel failed
  const std::string& detail;   // times, the first reason, or the error
};
/// Called for one result at a time.
using OnStreamed = std::function<void(const Streamed& result)>;

struct StreamReport {
  size_t candidates = 0, lanes = 0;
  double seconds = 0;
  std::map<std::string, int> counts;  // by verdict
};

/// Writes each result to the file `options.output` as a line "cupel.stream/1", then calls
/// `streamed`.
Result<StreamReport> Stream(const StreamOptions& options, Events& events,
                            const OnStreamed& streamed);

}  // namespace cupel::app
