// SPDX-License-Identifier: Apache-2.0
#include "emu/core/call_stacks.h"

namespace cupel::emu {

std::optional<uint64_t> AddressOfFunction(const ptx::Module& module, std::string_view name) {
  const ptx::Function* function = module.Find(name);
  if (function == nullptr || function->is_entry || function->is_declaration) return std::nullopt;
  const auto index = static_cast<uint64_t>(function - module.functions.data());
  return kCodeWindow + (index + 1) * kCodeStep;
}

}  // namespace cupel::emu
