// The table of handlers. It maps a form ("fma.rn.ftz.f32", "ld.global.u32.v4", "@guard") to two
// functions and the kinds of the operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/isa/form.h"

namespace cupel::emu {

/// The kind of slot that an operand needs.
enum class SlotKind : uint8_t { kNone, kPredicate, kWord, kDouble };  // mask, 32 x 4, 32 x 8 bytes

/// The floating-point mode (MXCSR) that a handler needs.
enum class FloatMode : uint8_t { kAny, kIeee, kFlush };

struct TensorProduct;

struct Entry {
  Form form;  // set by HandlerTable::Add
  Handler full = nullptr;
  Handler masked = nullptr;
  SlotKind dst = SlotKind::kNone;
  SlotKind src[4] = {SlotKind::kNone, SlotKind::kNone, SlotKind::kNone, SlotKind::kNone};
  FloatMode mode = FloatMode::kAny;
  uint8_t flops = 0;
  bool is_lanewise = false;  // computes lane by lane, and its masked form calls Op::full
};

class HandlerTable {
 public:
  /// `name` is the form's (form.h). The last entry of a form counts.
  void Add(std::string_view name, Entry entry);
  /// Null if there is none. Entries stay where they are while the table exists.
  const Entry* Find(const Form& form) const;
  const Entry* Find(Micro micro) const { return Find(Form(micro, {})); }
  /// The names of all forms, sorted.
  std::vector<std::string> Names() const;
  /// Runs a warp until it stops.
  void (*run)(Warp&) = nullptr;
  /// The fast path of the race checks for a read by the asynchronous proxy: `active` pieces of 16
  /// bytes of shared memory, ordered if they were written before the clocks `seen` (by warp).
  /// Returns false if the checker must decide.
  bool (*stamp_proxied)(const Warp& warp, const Op* op, const uint32_t* offsets, uint32_t active,
                        const uint32_t* seen) = nullptr;
  /// Computes a product of tcgen05.mma.
  void (*tensor_product)(const TensorProduct& product) = nullptr;

 private:
  std::unordered_map<Form, Entry, FormHash> entries_;
};

}  // namespace cupel::emu
