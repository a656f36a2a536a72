// The fast interpreter for the differential tests: one module, a few buffers, one level of vector
// instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "blocks.h"
#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "emu/decode/kernel_module.h"
#include "ptx/ir.h"

namespace cupel::reference {

class Fast {
 public:
  Fast(const ptx::Module& module, int vector_level);

  /// Runs a kernel whose parameters are pointers to the buffers, then tensor maps. The kernel
  /// changes the buffers. Returns an error message (a finding, a warning, or what is unsupported),
  /// or an empty string.
  std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                  std::span<std::vector<std::byte>* const> buffers,
                  std::span<const MapParameter> maps = {}, bool full_checks = false);

 private:
  std::unique_ptr<emu::KernelModule> kernels_;
  emu::ThreadPool pool_;
};

/// Every key of the fast interpreter's table of instructions.
std::vector<std::string> TableKeys();

}  // namespace cupel::reference
