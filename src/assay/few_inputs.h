// SPDX-License-Identifier: Apache-2.0
// How many inputs a GPU tries at a size, if the emulator tries all kinds at smaller sizes
// (Question::few_inputs).
#pragma once

#include <cstddef>

#include "task/task.h"

namespace cupel::assay {

struct FewInputs {
  int trials = 0;    // of the task's own numbers, at most
  size_t kinds = 0;  // of other inputs, at most
};

/// For a case of so many bytes. Each number of a case is compared, so few cases with many numbers
/// are enough; PyTorch may take a minute to compute one. Of the largest ones, only those of single
/// settings have other inputs.
FewInputs FewInputsAt(size_t case_bytes, task::SettingKind kind);

}  // namespace cupel::assay
