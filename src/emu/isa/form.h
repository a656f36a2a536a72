// The form of an instruction that one handler executes: an opcode with its modifiers, a part of
// one, or a micro-op of the emulator's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "emu/isa/instructions.h"
#include "ptx/modifiers.h"
#include "ptx/opcode.h"

namespace cupel::emu {

struct Form {
  Form() = default;
  Form(ptx::Opcode op, ptx::Modifiers words) : opcode(op), modifiers(words) {}
  Form(Micro part, ptx::Modifiers words) : micro(part), modifiers(words) {}

  ptx::Opcode opcode = ptx::Opcode::kUnknown;  // kUnknown: none
  Micro micro = Micro::kNone;
  ptx::Modifiers modifiers;

  bool Has(ptx::Modifier modifier) const { return modifiers.Has(modifier); }
  /// The rule of the micro-op, or else of the opcode.
  ShadowRule shadow() const;

  bool operator==(const Form&) const = default;
};
struct FormHash {
  size_t operator()(const Form& form) const;
};

/// "fma.rn.ftz.f32", "part1.b64.b32", "setp.eq.f16x2.low", "@guard".
std::string Name(const Form& form);
/// The inverse. The text is one of ours: an unknown word is a fault of the table, and ends the
/// program.
Form FormNamed(std::string_view text);

}  // namespace cupel::emu
