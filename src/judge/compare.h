// Compares one output with its truth under the calibrated tolerance (docs/judging.md): accept if
// RMS error <= 16 E and largest error <= 128 E, each plus the absolute floor of the dtype. The part
// of E that is the rounding of a 16-bit result counts 4 times in the limit of the RMS error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "records/comparison.h"
#include "task/case.h"
#include "task/tensor.h"

namespace cupel::judge {

inline constexpr double kRmsFactor = 16;
inline constexpr double kMaxFactor = 128;
inline constexpr double kRoundingFactor =
    4;  // of the RMS error, for the rounding of 16-bit results

/// The absolute error that is always allowed: the smallest normal number, because kernels may flush
/// denormals. For float16, which GPUs never flush and whose smallest normal is a visible 6e-5, it
/// is the smallest denormal. For float8 it is that of float16 (scan.h, JudgedAs).
double AbsoluteFloor(DType dtype);

/// `got` must be contiguous and as large as its shape says. Uses all cores for large outputs; the
/// result does not depend on their number.
records::Comparison Compare(const task::Tensor& got, const task::Output& want);

/// Like Compare, but only for the elements that sampled blocks wrote; `count` counts those. The
/// message does not explain the cause, because the pattern of a few blocks misleads. An output to
/// which nothing was written is wrong.
records::Comparison CompareWritten(const engine::OutputTensor& got, const task::Output& want);

/// Like Compare, but without a message, a pattern or the first wrong elements.
records::Comparison CompareQuietly(const task::Tensor& got, const task::Output& want);

/// Like Compare, on `threads` threads.
records::Comparison CompareOn(size_t threads, const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
