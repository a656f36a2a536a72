// A PTX module for the interpreter. Kernels are decoded on first use into arrays of micro-ops with
// resolved register offsets (decoder.h). Decoding does not depend on addresses: a launch looks up
// the module's variables in GlobalMemory (BindSymbol) when it starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "emu/core/kernel.h"
#include "plan/plan.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// The kernels of one PTX module. Find is thread-safe.
class KernelModule {
 public:
  /// Keeps a copy of the module. Does not decode kernels: a kernel that is never launched may be
  /// unsupported. `vector_level` (for tests) limits the instruction set that handlers use, see
  /// handlers.h. `is_of_triton`: Triton's compiler made the module.
  static Result<std::unique_ptr<KernelModule>> Decode(const ptx::Module& module,
                                                      int vector_level = 2,
                                                      bool is_of_triton = false);
  ~KernelModule();

  /// The entry `name` (mangled), decoded on first use; null if there is none.
  const Kernel* Find(std::string_view name) const;
  const ptx::Module& module() const { return module_; }
  /// log2 of the bytes of the narrowest access to global memory in the module, at most 2. This is
  /// the granularity for race checks.
  int global_granule_shift() const { return global_granule_shift_; }

 private:
  KernelModule(const ptx::Module& module, int vector_level, bool is_of_triton);

  ptx::Module module_;
  int vector_level_ = 2;
  bool is_of_triton_ = false;
  int global_granule_shift_ = 2;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

/// The modules of a candidate, by image.
using KernelModules = std::vector<std::unique_ptr<KernelModule>>;

/// The launch's kernel; null if there is none.
inline const Kernel* FindKernel(const KernelModules& modules, const plan::Launch& launch) {
  const auto image = static_cast<size_t>(launch.image);
  return image < modules.size() ? modules[image]->Find(launch.kernel) : nullptr;
}

}  // namespace cupel::emu
