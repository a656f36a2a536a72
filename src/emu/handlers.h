// The table of instruction handlers. It maps a canonical mnemonic ("fma.rn.ftz.f32",
// "ld.global.b32.v4") to two functions and the kinds of the operands. Hot handlers are compiled
// several times, for AVX-512, AVX2 and plain x86-64 (ops_*.inc through handlers_*.cc). The table is
// chosen at run time by what the processor supports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emu/op.h"

namespace cupel::emu {

/// The kind of slot that an operand needs.
enum class SlotKind : uint8_t { kNone, kPredicate, kWord, kDouble };  // mask, 32 x 4, 32 x 8 bytes

/// The floating-point mode (MXCSR) that a handler needs.
enum class FloatMode : uint8_t { kAny, kIeee, kFlush };

struct Entry {
  Handler full = nullptr;
  Handler masked = nullptr;
  SlotKind dst = SlotKind::kNone;
  SlotKind src[4] = {SlotKind::kNone, SlotKind::kNone, SlotKind::kNone, SlotKind::kNone};
  FloatMode mode = FloatMode::kAny;
  uint8_t flops = 0;
  uint8_t sign_extends = 0;  // of a narrow result put into a wide register
};

class HandlerTable {
 public:
  void Add(std::string_view key, const Entry& entry);
  const Entry* Find(std::string_view key) const;
  /// All keys, sorted.
  std::vector<std::string> Keys() const;
  /// Runs a warp until it stops.
  void (*run)(Warp&) = nullptr;

 private:
  std::unordered_map<std::string, Entry> entries_;
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
