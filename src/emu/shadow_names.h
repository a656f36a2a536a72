// What the keys of the handler table say of an instruction's types and operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "emu/shadow.h"

namespace cupel::emu {

using Words = std::vector<std::string_view>;

/// "fma.rn.f32" at its dots.
Words Split(std::string_view text);
bool Has(const Words& words, std::string_view word);

struct TypeName {
  Format format = Format::kInteger;
  bool packed = false;
  uint8_t bytes = 4;
  bool is_signed = false;
  bool known = false;
};
TypeName TypeOf(std::string_view name);

struct Arithmetic {
  Exact operation;
  uint8_t sources;
};
std::optional<Arithmetic> ArithmeticOf(std::string_view name);

/// Frame offsets of constants so large that adding them rounds a float to an integer.
std::map<int32_t, Format> MagicConstants(const Code& code);

// shadow_classify.cc: they fill the side of an instruction with these words.
void ClassifyAtomic(const Words& words, Side& side);
void ClassifyControl(std::string_view key, Side& side);
/// Pairs of 8-bit floats from float32 or a pair of halves, or to one; false: it is no such
/// conversion.
bool ClassifySmall(const Words& words, Side& side);
/// False when it is no move.
bool ClassifyMove(const Words& words, Side& side);

}  // namespace cupel::emu
