// cupel's own kernels, as PTX that the driver compiles. They flush the L2 cache, show that two
// clocks are the same, and measure a GPU's ceilings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cupel::gpu {

/// Reads `bytes` (a multiple of 16) at `data` and adds a number to the u64 at `sum` that depends on
/// every word and its place: (u64 data, u64 bytes, u64 sum). Flushes read because writes would
/// leave dirty lines, and writing those back would slow the next kernel.
inline constexpr const char* kReadKernel = "cupel_read";
/// Copies `bytes`, a multiple of kStreamPiece for each thread: (u64 from, u64 bytes, u64 to).
inline constexpr const char* kStreamKernel = "cupel_stream";
inline constexpr uint64_t kStreamPiece = 64;
/// Fused multiply-adds, kFmaUnrolled per iteration in each of kFmaChains chains: (u64 out,
/// u32 iterations).
inline constexpr const char* kFmaKernel = "cupel_fma";
inline constexpr int kFmaChains = 8, kFmaUnrolled = 16;
/// Writes zeros to all of its dynamic shared memory: ().
inline constexpr const char* kScrubKernel = "cupel_scrub";
/// Does nothing: ().
inline constexpr const char* kEmptyKernel = "cupel_empty";

/// One module with all of them. `target`: "sm_90".
std::string OwnKernelsPtx(const std::string& target);

inline constexpr uint32_t kOwnBlock = 256;

}  // namespace cupel::gpu
