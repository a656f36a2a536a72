// What a verdict's record contains in addition to the decision: the request, the tools, the machine
// and the sandbox. Enough to check the record and to judge again (`cupel verify`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/sandbox.h"
#include "records/gpu_state.h"
#include "task/task.h"

namespace cupel::records {

/// The request: the arguments of `cupel check`, except for the seed.
struct Asked {
  std::string task;                      // as the user named it, or its path
  std::vector<task::SettingKind> kinds;  // empty: all
  int trials = 0;
  bool shadows = false, integers = false;
  int schedules = -1;
  bool explores = false;                   // also at sizes that no setting has
  bool proves = false;                     // also as a function of real numbers
  bool strict_layouts = false;             // those of other layouts reject
  bool few_inputs = false;                 // only a few of `distributions` at each setting
  bool reduced = false;                    // at the smaller sizes that the task sets
  std::vector<std::string> distributions;  // kinds of other inputs
  std::string operators;                   // of PyTorch: "allowed", "none" or names; empty: unknown
  int compile_seconds = 300;               // the limit of the compilation
  std::string engine, model;               // "emu", "h100"
  std::string arch;
  std::vector<std::string> flags;  // in addition to the defaults
  std::vector<std::string> include_roots;
  std::vector<std::string> include_folders;  // of a candidate of several files, relative
};

struct Provenance {
  Asked asked;
  /// SHA-256 of what was executed; empty if nothing was built.
  std::string shared_object_hash, ptx_hash, cubin_hash;
  std::string program_hash, commit;    // of cupel itself
  std::string shim_hash, oracle_hash;  // of the headers and of the code that computes the truth
  std::optional<os::SandboxReport> compiler, recorder;
  std::string host, system, processor;  // "Linux 6.1.0 x86_64", "AMD EPYC …"
  int cores = 0;
  std::optional<GpuState> gpu;  // after the last trial; part of "timing"
};

}  // namespace cupel::records
