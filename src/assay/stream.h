// A pipelined stream of candidates. Threads on all cores compile them and, if the lanes are GPUs,
// judge them on the emulator. Every lane (an engine with its own oracle) judges and times one
// candidate at a time; what the emulator has rejected is decided and gets no GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
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

/// Where candidates are judged. Each lane is used by one thread. Borrows everything.
struct Lane {
  Assay* assay = nullptr;
  const Parts* parts = nullptr;
  /// If null, nothing is timed.
  const BenchOptions* bench = nullptr;
  bool times_single_settings = false;  // no others
  std::string name;                    // "NVIDIA H200 0"
};

struct JobResult {
  Judged judged;
  std::vector<records::SettingTimes> times;  // of the settings that the kernel passed
  std::string lane;
  double seconds = 0;  // in its lane and on the emulator, without building
};

/// The threads that prepare candidates for the lanes.
struct Builders {
  size_t threads = 1;
  /// One for each thread, which answers Question::emulator; empty: the emulator judges nothing.
  std::vector<Assay*> emulators = {};
};

/// Lanes run jobs of the same task and direction together, because their cases may be large. Calls
/// `done` for every job, in any order, one at a time. An Error of one job (the fault of cupel or
/// the task) does not end the others. If it may be the lane's fault, another lane tries the job
/// once more (base/lanes.h). Fails only with kCancelled, after a stop
/// request.
Status RunStream(std::span<const Job> jobs, std::span<const Lane> lanes, const Builders& builders,
                 const std::function<void(size_t job, Result<JobResult> result)>& done,
                 const std::stop_token& stop = {});

}  // namespace cupel::assay
