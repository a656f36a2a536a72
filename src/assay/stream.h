// A stream of candidates, pipelined: compilers run ahead on all cores, and every lane (an engine
// with its own oracle) judges and times one candidate at a time. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "assay/bench.h"

namespace cupel::assay {

struct Job {
  std::filesystem::path kernel;
  Question question;
  /// Called by one of several threads.
  std::function<Result<Candidate>()> build;
};

/// Where candidates are judged; each is used by one thread. All borrowed.
struct Lane {
  Assay* assay = nullptr;
  const Parts* parts = nullptr;
  /// Nothing is timed without.
  const BenchOptions* bench = nullptr;
  std::string name;  // "NVIDIA H200 0"
};

struct JobResult {
  Judged judged;
  std::vector<SettingTimes> times;  // of the settings at which it is right
  std::string lane;
  double seconds = 0;  // in its lane; building comes on top
};

/// Jobs of the same task and direction are done together: their cases, which may be large,
/// are at hand then. `done` is called for every job, in any order, one at a time. What fails for
/// one job (an Error is cupel's or the task's own fault) ends no other. Errors: kCancelled alone.
Status RunStream(std::span<const Job> jobs, std::span<const Lane> lanes, int builders,
                 const std::function<void(size_t job, Result<JobResult> result)>& done);

}  // namespace cupel::assay
