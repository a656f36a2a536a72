// PTX of a kernel that copies one strided view into another and converts its elements, like
// PyTorch's copy_. Executes a plan's CopyView node on a GPU. Sizes and strides are constants in the
// text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/plan.h"

namespace cupel::gpu {

inline constexpr const char* kCopyKernel = "cupel_copy";

/// `.entry cupel_copy(to, from)`, where `to` and `from` are the addresses of the first elements.
/// Any grid of one-dimensional blocks copies all elements. `version` and `target` are the operands
/// of ".version" and ".target": "8.0", "sm_90".
std::string CopyKernelPtx(const plan::CopyView& copy, const std::string& version,
                          const std::string& target);

}  // namespace cupel::gpu
