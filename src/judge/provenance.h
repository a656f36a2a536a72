// What a verdict's record says beside the decision: what was asked, with which tools, where, and
// inside which sandbox. Enough to check the record, and to ask again (`cupel verify`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/timing.h"
#include "os/sandbox.h"

namespace cupel::judge {

/// What was asked: the arguments of `cupel check`, but for the seed.
struct Asked {
  std::string task;                // as it was named, or its path
  std::vector<std::string> kinds;  // of settings; empty: all
  int trials = 0;
  bool shadows = false, integers = false;
  int schedules = -1;
  bool reduced = false;                    // at the sizes that the task names for the emulator
  std::vector<std::string> distributions;  // of other inputs
  std::string engine, model;               // "emu", "h100"
  std::string arch;
  std::vector<std::string> flags;  // beyond the defaults
  std::vector<std::string> include_roots;
};

struct Provenance {
  Asked asked;
  /// SHA-256 of what was executed; empty when nothing was built.
  std::string shared_object_hash, ptx_hash, cubin_hash;
  std::string program_hash, commit;    // of cupel itself
  std::string shim_hash, oracle_hash;  // of the headers, and of the code that computes truth
  std::optional<os::SandboxReport> compiler, recorder;
  std::string host, system, processor;  // "Linux 6.1.0 x86_64", "AMD EPYC …"
  int cores = 0;
  std::optional<engine::GpuState> gpu;  // after the last trial; part of "timing"
};

/// Adds the members that docs/formats/verdict.md calls the provenance.
void AddProvenance(const Provenance& provenance, Json& record);

}  // namespace cupel::judge
