// The table of handlers. It maps a form ("fma.rn.ftz.f32", "ld.global.u32.v4", "@guard") to two
// functions and the kinds of the operands. Hot handlers are compiled
// several times, for AVX-512, AVX2 and plain x86-64 (ops_*.inc through handlers_*.cc). The table is
// chosen at run time by what the processor supports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emu/form.h"
#include "emu/op.h"

namespace cupel::emu {

/// The kind of slot that an operand needs.
enum class SlotKind : uint8_t { kNone, kPredicate, kWord, kDouble };  // mask, 32 x 4, 32 x 8 bytes

/// The floating-point mode (MXCSR) that a handler needs.
enum class FloatMode : uint8_t { kAny, kIeee, kFlush };

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

 private:
  std::unordered_map<Form, Entry, FormHash> entries_;
};

/// The table for this processor. `limit` (for tests): 0 plain, 1 up to AVX2, 2 up to AVX-512.
const HandlerTable& Handlers(int limit = 2);
/// The highest level that this processor supports: 0, 1 or 2 as above.
int VectorLevel();

void RegisterPlain(HandlerTable& table);
void RegisterAvx2(HandlerTable& table);
void RegisterAvx512(HandlerTable& table);
// Handlers that need no vectors, compiled once.
void RegisterControl(HandlerTable& table);
void RegisterAtomic(HandlerTable& table);
void RegisterWarp(HandlerTable& table);
void RegisterMatrixMoves(HandlerTable& table);
void RegisterAsync(HandlerTable& table);
void RegisterMemoryBarriers(HandlerTable& table);
void RegisterCalls(HandlerTable& table);
void RegisterPrint(HandlerTable& table);
void RegisterRare(HandlerTable& table);
void RegisterRareWarp(HandlerTable& table);

}  // namespace cupel::emu
