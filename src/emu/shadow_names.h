// Derives an instruction's types and operation from the keys of the handler table.
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

/// Splits "fma.rn.f32" at its dots.
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

/// Frame offsets of constants that are so large that adding them rounds a float to an integer.
std::map<int32_t, Format> MagicConstants(const Code& code);

// shadow_classify.cc: these fill the side of an instruction with these words.
void ClassifyAtomic(const Words& words, Side& side);
void ClassifyControl(std::string_view key, Side& side);
/// Conversions between pairs of 8-bit floats and float32 or a pair of halves. Returns false for
/// others.
bool ClassifySmall(const Words& words, Side& side);
/// Returns false if it is not a move.
bool ClassifyMove(const Words& words, Side& side);

}  // namespace cupel::emu
