// A PTX module for the interpreter. Kernels are decoded on first use into arrays of micro-ops with
// resolved register offsets (decode.h, op.h). Decoding does not depend on addresses: a launch looks
// up the module's variables in GlobalMemory (BindSymbol) when it starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// The windows of the other state spaces in the generic address space. Global memory (memory.h) is
/// outside of them.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = 0x0000'7e00'0000'0000u;
inline constexpr uint64_t kLocalWindow = 0x0000'7d00'0000'0000u;
inline constexpr uint64_t kParamWindow = 0x0000'7c00'0000'0000u;

struct Code;  // decoded micro-ops (code.h)

/// The static properties of a kernel, and its code.
struct Kernel {
  Kernel();
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  std::string name;  // mangled
  std::string demangled;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;         // of one thread
  uint64_t cluster_blocks = 1;      // blocks per cluster that the kernel itself requires
  bool has_global_atomics = false;  // if true, blocks run in order, on one thread
  bool has_shared_atomics = false;
  bool has_plain_stores = false;  // only `st` writes to global memory
  bool may_spin = false;          // may wait for other blocks: has volatile or atomic loads
  /// Not empty if the interpreter does not support the kernel: "wgmma.mma_async… at kernel.cu:31".
  std::string unsupported;
  std::unique_ptr<Code> code;  // null when unsupported
};

/// The kernels of one PTX module. Find is thread-safe.
class KernelModule {
 public:
  /// Keeps a copy of the module. Does not decode kernels: a kernel that is never launched may be
  /// unsupported. `vector_level` (for tests) limits the instruction set that handlers use, see
  /// handlers.h.
  static Result<std::unique_ptr<KernelModule>> Decode(const ptx::Module& module,
                                                      int vector_level = 2);
  ~KernelModule();

  /// The entry `name` (mangled), decoded on first use; null if there is none.
  const Kernel* Find(std::string_view name) const;
  const ptx::Module& module() const { return module_; }
  /// log2 of the bytes of the narrowest access to global memory in the module, at most 2. This is
  /// the granularity for race checks.
  int global_granule_shift() const { return global_granule_shift_; }

 private:
  KernelModule(const ptx::Module& module, int vector_level);

  ptx::Module module_;
  int vector_level_ = 2;
  int global_granule_shift_ = 2;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

}  // namespace cupel::emu
