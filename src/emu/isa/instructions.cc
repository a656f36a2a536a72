// SPDX-License-Identifier: Apache-2.0
#include "emu/isa/instructions.h"

#include <array>
#include <cstddef>

namespace cupel::emu {
namespace {

constexpr auto kInstructions = std::to_array<Instruction>({
    {},  // Opcode::kUnknown
#define CUPEL_OPCODE(enumerator, text, writes, unit, latency, memory, lanes, decode, shadow) \
  {Unit::unit,   Latency::latency, MemoryUse::memory,                                        \
   Lanes::lanes, Decode::decode,   ShadowRule::shadow},
#include "ptx/opcodes.def"
});

constexpr auto kMicros = std::to_array<MicroRow>({
    {},  // Micro::kNone
#define CUPEL_MICRO(enumerator, text, effect, shadow) {text, Effect::effect, ShadowRule::shadow},
#include "emu/isa/micros.def"
});

}  // namespace

const Instruction& RowOf(ptx::Opcode opcode) { return kInstructions[static_cast<size_t>(opcode)]; }
const MicroRow& RowOf(Micro micro) { return kMicros[static_cast<size_t>(micro)]; }

Micro MicroNamed(std::string_view text) {
  for (size_t i = 1; i < kMicros.size(); ++i) {
    if (kMicros[i].text == text) return static_cast<Micro>(i);
  }
  return Micro::kNone;
}

}  // namespace cupel::emu
