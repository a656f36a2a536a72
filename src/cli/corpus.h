// The kernels of tests/mustfail and tests/mustpass: what the comment lines at the head of each say
// about it. docs/formats/selftest.md has the form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::cli {

/// What must come of it: the kernels that must fail are given by their folder, not by what is
/// expected of each.
enum class Corpus { kMustFail, kMustPass };

struct Specimen {
  Corpus corpus = Corpus::kMustFail;
  std::string name;  // "mustfail/stale_output"
  std::filesystem::path kernel;
  std::string task;                 // as `cupel check --task` takes it
  std::string settings = "single";  // single, multi, heldout, all
  bool backward = false;
  bool needs_gpu = false;       // the emulator cannot execute it
  bool needs_emulator = false;  // a GPU shows nothing of what is wrong
  std::vector<std::string> decisions = {"accepted"};
  std::vector<std::string> codes;  // of reasons, one of which is expected; empty when accepted
  std::string exploit, note;
};

/// Reads the head of one kernel; `source` is its text. The task's folder is not known yet: `task`
/// is the name in the head.
Result<Specimen> ReadSpecimen(Corpus corpus, const std::filesystem::path& kernel,
                              std::string_view source);

/// Both corpora below `data` (tests/mustfail, tests/mustpass), in the order of their names. A task
/// is a folder of tests/mustpass/tasks, or else of tasks/.
Result<std::vector<Specimen>> ReadCorpora(const std::filesystem::path& data);

}  // namespace cupel::cli
