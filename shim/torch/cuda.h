// Queries about the GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/types.h"

namespace torch::cuda {
inline size_t device_count() { return 1; }
inline bool is_available() { return true; }
}  // namespace torch::cuda
