// Instrumented execution: a second version of a kernel's code in which selected micro-ops call
// thunks. The ops are copies in the same order, so jumps, groups and findings, which refer to ops
// by position, need no change. A launch runs the variant by using its code instead of the kernel's,
// so other launches are not slowed down.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// The handlers that an op calls instead of its own; null keeps the original.
struct Thunks {
  Handler full = nullptr;
  Handler masked = nullptr;
};

/// Creates a variant of `code`. `choose` returns the thunks of an op, given its index and the op.
/// It keeps the original handlers if the thunks need them.
std::unique_ptr<Code> MakeVariant(const Code& code,
                                  const std::function<Thunks(size_t, const Op&)>& choose);

/// Calls the original handler of a lane-wise op. The handler may call Op::full, which must not be
/// the thunk, so it gets a modified copy of the op. Returns the value that the thunk must return.
inline const Op* CallLanewise(Warp& warp, const Op* op, Handler full, Handler masked,
                              bool is_masked) {
  Op copy = *op;
  copy.full = full;
  copy.masked = masked;
  const Op* next = (is_masked ? masked : full)(warp, &copy);
  return next == nullptr ? nullptr : op + 1;
}

}  // namespace cupel::emu
