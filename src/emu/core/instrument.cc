// SPDX-License-Identifier: Apache-2.0
#include "emu/core/instrument.h"

#include "emu/core/code.h"
#include "emu/core/op.h"

namespace cupel::emu {

std::unique_ptr<Variant> MakeVariant(const Code& code,
                                     const std::function<Thunks(size_t, const Op&)>& choose) {
  auto variant = std::make_unique<Variant>();
  variant->code = code;
  const size_t count = code.ops.size();
  variant->full.resize(count);
  variant->masked.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Op& op = variant->code.ops[i];
    variant->full[i] = op.full;
    variant->masked[i] = op.masked;
    const Thunks thunks = choose(i, code.ops[i]);
    if (thunks.full != nullptr) op.full = thunks.full;
    if (thunks.masked != nullptr) op.masked = thunks.masked;
  }
  return variant;
}

}  // namespace cupel::emu
