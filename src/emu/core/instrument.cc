// SPDX-License-Identifier: Apache-2.0
#include "emu/core/instrument.h"

#include "emu/core/code.h"
#include "emu/core/op.h"

namespace cupel::emu {

std::unique_ptr<Code> MakeVariant(const Code& code,
                                  const std::function<Thunks(size_t, const Op&)>& choose) {
  auto variant = std::make_unique<Code>(code);
  for (size_t i = 0; i < code.ops.size(); ++i) {
    Op& op = variant->ops[i];
    const Thunks thunks = choose(i, code.ops[i]);
    if (thunks.full != nullptr) op.full = thunks.full;
    if (thunks.masked != nullptr) op.masked = thunks.masked;
  }
  return variant;
}

}  // namespace cupel::emu
