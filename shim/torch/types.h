// namespace torch: everything of at::, and the dtype names that only torch:: has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/ATen.h"

namespace torch {

using namespace at;  // NOLINT: as in PyTorch

constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
using Dtype = at::ScalarType;

// Empty, so that the compiler names the missing operator.
namespace nn {
namespace functional {}
namespace init {}
namespace utils {}
}  // namespace nn
namespace autograd {}
namespace fft {}
namespace jit {}
namespace linalg {}
namespace optim {}
namespace sparse {}
namespace special {}

}  // namespace torch
