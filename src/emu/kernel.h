// A PTX module as the interpreter runs it: kernels decoded on first use into arrays of micro-ops
// with pre-resolved register offsets (decode.h, op.h). Decoding does not depend on addresses:
// variables of the module are looked up in GlobalMemory (BindSymbol) when a launch starts.
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

/// Where the other state spaces lie in the generic address space. Global memory (memory.h) lies
/// elsewhere.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = 0x0000'7e00'0000'0000u;
inline constexpr uint64_t kLocalWindow = 0x0000'7d00'0000'0000u;
inline constexpr uint64_t kParamWindow = 0x0000'7c00'0000'0000u;

struct Code;  // decoded micro-ops (code.h)

/// What is known of a kernel without running it.
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
  uint64_t cluster_blocks = 1;      // that the kernel asks for itself
  bool has_global_atomics = false;  // blocks then run in order, on one thread
  bool has_shared_atomics = false;
  bool has_plain_stores = false;  // nothing but `st` writes to global memory
  bool may_spin = false;          // waits for other blocks (volatile or acquiring loads in a loop)
  /// Not empty when the kernel uses what the interpreter lacks: "wgmma.mma_async… at kernel.cu:31".
  std::string unsupported;
  std::unique_ptr<Code> code;  // null when unsupported
};

/// The kernels of one PTX module. Find is thread-safe.
class KernelModule {
 public:
  /// Keeps a copy of the module. Does not look into bodies: a kernel that is never launched does
  /// not matter. `vector_level` (for tests) limits the instruction set that handlers use, see
  /// handlers.h.
  static Result<std::unique_ptr<KernelModule>> Decode(const ptx::Module& module,
                                                      int vector_level = 2);
  ~KernelModule();

  /// The entry `name` (mangled), decoded now if it was not; null when there is none.
  const Kernel* Find(std::string_view name) const;
  const ptx::Module& module() const { return module_; }
  /// log2 of the bytes of the narrowest access to global memory in the module, at most 2: how
  /// finely it must be watched.
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
