// Chooses how shadows follow a micro-op: from the rule in its row of the table (instructions.h) and
// the types in its form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "emu/core/code.h"
#include "emu/isa/form.h"
#include "emu/shadow/shadow.h"
#include "ptx/type.h"

namespace cupel::emu {

/// What shadows need to know about a type.
struct ShadowType {
  Format format = Format::kInteger;
  bool packed = false;
  uint8_t bytes = 4;
  bool is_signed = false;
  bool known = false;
};
ShadowType ShadowTypeOf(ptx::Type type);
/// Of the last type of a form, which is that of its operands. Unknown if it has none.
ShadowType LastTypeOf(const Form& form);

/// Frame offsets of constants that are so large that adding them rounds a float to an integer.
std::map<int32_t, Format> MagicConstants(const Code& code);

// Each fills the side of a micro-op with that form, or returns false if it is of another kind.

/// Arithmetic on floats, and conversions between them. `is_magic`: one of the operands of a sum is
/// a magic constant for the format of the sum.
bool ClassifyFloat(const Form& form, const std::function<bool(const Side&)>& is_magic, Side& side);
/// Moves, and integer operations through which floats can pass.
bool ClassifyMove(const Form& form, Side& side);
bool ClassifyControl(const Form& form, Side& side);
void ClassifyAtomic(const Form& form, Side& side);
/// The rest. `is_lanewise`: a lane's result depends on no other lane.
void ClassifyRest(const Form& form, bool is_lanewise, Side& side);

}  // namespace cupel::emu
