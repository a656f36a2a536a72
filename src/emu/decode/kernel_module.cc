// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/kernel_module.h"

#include <algorithm>

#include "emu/core/kernel.h"
#include "emu/core/kernel_text.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {

Kernel::Kernel() = default;
Kernel::~Kernel() = default;

KernelModule::KernelModule(const ptx::Module& module, int vector_level, bool is_of_triton)
    : module_(module), vector_level_(vector_level), is_of_triton_(is_of_triton) {
  for (const ptx::Function& function : module_.functions) {
    global_granule_shift_ =
        std::min(global_granule_shift_, GranuleShift(function, MemorySpace::kGlobal));
  }
}
KernelModule::~KernelModule() = default;

Result<std::unique_ptr<KernelModule>> KernelModule::Decode(const ptx::Module& module,
                                                           int vector_level, bool is_of_triton) {
  return std::unique_ptr<KernelModule>(new KernelModule(module, vector_level, is_of_triton));
}

const Kernel* KernelModule::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second.get();
  const ptx::Function* function = module_.Find(name);
  if (function == nullptr || !function->is_entry || function->is_declaration) return nullptr;
  auto kernel = std::make_unique<Kernel>();
  Decoder(module_, Handlers(vector_level_)).Decode(*function, kernel.get());
  if (kernel->code) kernel->code->is_of_triton = is_of_triton_;
  return kernels_.emplace(std::string(name), std::move(kernel)).first->second.get();
}

}  // namespace cupel::emu
