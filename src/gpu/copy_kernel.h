// PTX of a kernel that copies one strided view into another and converts its elements, as PyTorch's
// copy_ does: the plan's CopyView node on a GPU. Sizes and strides are constants of the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/plan.h"

namespace cupel::gpu {

inline constexpr const char* kCopyKernel = "cupel_copy";

/// `.entry cupel_copy(to, from)`: addresses of the first elements. Any grid of one-dimensional
/// blocks copies all elements. `version` and `target` as in ".version 8.0" and ".target sm_90".
std::string CopyKernelPtx(const plan::CopyView& copy, const std::string& version,
                          const std::string& target);

/// Elements that it copies.
uint64_t ElementsOf(const plan::View& view);

}  // namespace cupel::gpu
