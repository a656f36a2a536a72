// A kernel as the interpreter executes it, and the windows of the generic address space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plan/plan.h"

namespace cupel::emu {

/// The windows of the other state spaces in the generic address space. Global memory (memory.h) is
/// outside of them.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = 0x0000'7e00'0000'0000u;
inline constexpr uint64_t kLocalWindow = 0x0000'7d00'0000'0000u;
inline constexpr uint64_t kParamWindow = 0x0000'7c00'0000'0000u;
/// Addresses in shared memory have the rank + 1 of another block from this bit on (cluster.h).
inline constexpr int kRankShift = 24;

struct Code;        // decoded micro-ops (code.h)
struct KernelText;  // what they were decoded from (kernel_text.h)

/// The static properties of a kernel, and its code.
struct Kernel {
  Kernel();
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// The cluster of a launch that asks for `asked`.
  plan::Dim3 ClusterFor(const plan::Dim3& asked) const {
    return cluster.Count() != 0 ? cluster : asked;
  }

  std::string name;  // mangled
  std::string demangled;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;         // of one thread
  plan::Dim3 cluster{0, 0, 0};      // the cluster that the kernel requires; zeros: any
  bool explicit_cluster = false;    // .explicitcluster
  bool has_global_atomics = false;  // if true, blocks run in order, on one thread
  bool has_shared_atomics = false;
  bool takes_numbers = false;  // atomics on global memory return values: blocks may share out work
  bool has_plain_stores = false;  // only `st` writes to global memory
  bool may_spin = false;          // may wait for other blocks: has volatile or atomic loads
  /// Not empty if the interpreter does not support the kernel: "wgmma.mma_async… at kernel.cu:31".
  std::string unsupported;
  std::unique_ptr<Code> code;        // null when unsupported
  std::unique_ptr<KernelText> text;  // the same
};

}  // namespace cupel::emu
