// Finds out what a Python program brings: its extensions and its kernels of Triton.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "assay/assay.h"
#include "base/events.h"
#include "base/result.h"
#include "record/call_recorder.h"
#include "trace/program_code.h"

namespace cupel::app {

struct RecordedProgram {
  std::string setting;                   // at which it was called
  std::vector<trace::ProgramCode> code;  // in the order in which it asked for it
  std::vector<std::string> notes;        // what was ignored or assumed
  /// Why the call could not be recorded. `code` is then what the program asked for before.
  std::optional<record::Refusal> refusal;
};

/// Records one call of `program`, at the first setting of the task that has a case, as cupel check
/// does. `program` must be a Python program. Errors: kInvalidArgument without `task`, or if the
/// task's reference fails at every setting; no PyTorch; kCancelled.
Result<RecordedProgram> RecordProgram(const assay::Candidate& program, const std::string& task,
                                      const Common& common, const Compile& compile, Events& events);

}  // namespace cupel::app
