// Limits on the size of a plan. They are far above what kernels use, and low enough that a hostile
// plan cannot exhaust memory or time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cupel::plan {

inline constexpr size_t kMaxBuffers = 1'000'000;
inline constexpr size_t kMaxNodes = 1'000'000;
inline constexpr size_t kMaxOutputs = 4096;
inline constexpr int kMaxImages = 256;
inline constexpr size_t kMaxEdges = 16'000'000;      // all "after" lists, all batch pointers
inline constexpr size_t kMaxNameBytes = 65536;       // mangled names of templates are long
inline constexpr size_t kMaxParameterBytes = 32764;  // CUDA's limit since compute capability 7.0
inline constexpr size_t kMaxHostBytes = size_t{256} << 20;  // parameters and uploads together
inline constexpr size_t kMaxOperatorValues = 4096;          // arguments, results, items of a list
inline constexpr size_t kMaxViewDims = 16;
inline constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 40;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
inline constexpr int64_t kMaxPointerOffset = int64_t{1} << 47;
inline constexpr std::string_view kGemmComputes[] = {"f16",     "f32",      "f32_tf32",
                                                     "f32_f16", "f32_bf16", "f64"};

}  // namespace cupel::plan
