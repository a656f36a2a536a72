// Reads the kernels of tests/mustfail and tests/mustpass. Comment lines at the top of each file
// describe the kernel; docs/formats/selftest.md has the format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::app {

/// Which corpus a kernel belongs to. The kernel's folder decides this, not its expectation.
enum class Corpus { kMustFail, kMustPass };

struct Specimen {
  Corpus corpus = Corpus::kMustFail;
  std::string name;  // "mustfail/stale_output"
  std::filesystem::path kernel;
  std::string task;                 // as `cupel check --task` takes it
  std::string settings = "single";  // single, multi, heldout, all
  bool backward = false;
  bool needs_gpu = false;       // the emulator cannot execute it
  bool needs_emulator = false;  // a GPU cannot detect the fault
  std::string model;            // GPU that the emulator models; empty: as the user says
  std::vector<std::string> decisions = {"accepted"};
  std::vector<std::string> codes;  // reason codes, one of which is expected; empty if accepted
  std::string exploit, note;
};

/// Reads the header lines of one kernel. `source` is its text. The returned `task` is the name in
/// the header, not a folder.
Result<Specimen> ReadSpecimen(Corpus corpus, const std::filesystem::path& kernel,
                              std::string_view source);

/// Reads both corpora below `data` (tests/mustfail, tests/mustpass), sorted by name. A task is a
/// folder of tests/mustpass/tasks if it exists there, otherwise of tasks/.
Result<std::vector<Specimen>> ReadCorpora(const std::filesystem::path& data);

}  // namespace cupel::app
