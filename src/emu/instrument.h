// Instrumented execution: a second form of a kernel's code in which chosen micro-ops go through
// thunks. The ops are copies in the same order, so that jumps, groups and findings, which know ops
// by their place, need no change; what an op did before is found by its index. A launch runs the
// variant by taking its code instead of the kernel's: nothing is slower when it does not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emu/code.h"
#include "emu/handlers.h"
#include "emu/op.h"

namespace cupel::emu {

/// What an op is to call instead; null keeps the op as it is.
struct Thunks {
  Handler full = nullptr;
  Handler masked = nullptr;
};

struct Variant {
  Code code;
  std::vector<Handler> full, masked;  // of the original ops, by index
};

/// `choose` sees every op with its index.
std::unique_ptr<Variant> MakeVariant(const Code& code,
                                     const std::function<Thunks(size_t, const Op&)>& choose);

/// What the handlers of a table are: their key and entry, found by function.
class HandlerNames {
 public:
  explicit HandlerNames(const HandlerTable& table);
  /// Empty when no entry has this handler. Keys that share a function mean the same.
  std::string_view KeyOf(const Op& op) const;
  const Entry* EntryOf(const Op& op) const;
  /// True for handlers that compute lane by lane and whose masked form calls Op::full.
  bool IsLanewise(const Op& op) const;

 private:
  std::unordered_map<Handler, std::pair<std::string, Entry>> names_;
  Handler lanewise_[6] = {};
};

/// Calls the original handler of a lane-wise op. It may call Op::full in turn and must not meet the
/// thunk there, so it gets a copy. Returns what the thunk is to return.
inline const Op* CallLanewise(Warp& warp, const Op* op, Handler full, Handler masked,
                              bool is_masked) {
  Op copy = *op;
  copy.full = full;
  copy.masked = masked;
  const Op* next = (is_masked ? masked : full)(warp, &copy);
  return next == nullptr ? nullptr : op + 1;
}

}  // namespace cupel::emu
