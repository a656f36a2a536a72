// SPDX-License-Identifier: Apache-2.0
#include "emu/core/call_stacks.h"

namespace cupel::emu {

std::optional<uint64_t> AddressOfFunction(const ptx::Module& module, std::string_view name) {
  for (size_t i = 0; i < module.functions.size(); ++i) {
    const ptx::Function& function = module.functions[i];
    if (function.name == name && !function.is_entry && !function.is_declaration) {
      return kCodeWindow + (i + 1) * kCodeStep;
    }
  }
  return std::nullopt;
}

}  // namespace cupel::emu
