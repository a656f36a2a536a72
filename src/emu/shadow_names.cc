// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow_names.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cupel::emu {

Words Split(std::string_view text) {
  Words words;
  for (size_t at = 0; at <= text.size();) {
    const size_t dot = std::min(text.find('.', at), text.size());
    words.push_back(text.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}
bool Has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TypeName TypeOf(std::string_view name) {
  static const std::map<std::string_view, TypeName> types = {
      {"f32", {Format::kF32, false, 4, false, true}},
      {"tf32", {Format::kF32, false, 4, false, true}},
      {"f64", {Format::kF64, false, 8, false, true}},
      {"f16", {Format::kF16, false, 2, false, true}},
      {"bf16", {Format::kBF16, false, 2, false, true}},
      {"f16x2", {Format::kF16, true, 4, false, true}},
      {"bf16x2", {Format::kBF16, true, 4, false, true}},
      {"f32x2", {Format::kF32, true, 8, false, true}},
      {"u8", {Format::kInteger, false, 1, false, true}},
      {"s8", {Format::kInteger, false, 1, true, true}},
      {"u16", {Format::kInteger, false, 2, false, true}},
      {"s16", {Format::kInteger, false, 2, true, true}},
      {"b16", {Format::kInteger, false, 2, false, true}},
      {"u32", {Format::kInteger, false, 4, false, true}},
      {"s32", {Format::kInteger, false, 4, true, true}},
      {"b32", {Format::kInteger, false, 4, false, true}},
      {"u64", {Format::kInteger, false, 8, false, true}},
      {"s64", {Format::kInteger, false, 8, true, true}},
      {"b64", {Format::kInteger, false, 8, false, true}}};
  const auto found = types.find(name);
  return found == types.end() ? TypeName{} : found->second;
}

std::optional<Arithmetic> ArithmeticOf(std::string_view name) {
  static const std::map<std::string_view, Arithmetic> table = {
      {"add", {Exact::kAdd, 2}},          {"sub", {Exact::kSub, 2}},
      {"mul", {Exact::kMul, 2}},          {"fma", {Exact::kFma, 3}},
      {"mad", {Exact::kFma, 3}},          {"div", {Exact::kDiv, 2}},
      {"rcp", {Exact::kRcp, 1}},          {"sqrt", {Exact::kSqrt, 1}},
      {"rsqrt", {Exact::kRsqrt, 1}},      {"ex2", {Exact::kEx2, 1}},
      {"lg2", {Exact::kLg2, 1}},          {"sin", {Exact::kSin, 1}},
      {"cos", {Exact::kCos, 1}},          {"tanh", {Exact::kTanh, 1}},
      {"min", {Exact::kMin, 2}},          {"max", {Exact::kMax, 2}},
      {"neg", {Exact::kNeg, 1}},          {"abs", {Exact::kAbs, 1}},
      {"copysign", {Exact::kCopysign, 2}}};
  const auto found = table.find(name);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

std::map<int32_t, Format> MagicConstants(const Code& code) {
  std::map<int32_t, Format> magic;
  for (const ConstantSlot& slot : code.constants) {
    if (!slot.symbol.empty()) continue;
    if (slot.kind == SlotKind::kWord) {
      const float value = std::fabs(std::bit_cast<float>(static_cast<uint32_t>(slot.bits)));
      if (value >= 0x1p22f && value < 0x1p26f) magic[slot.offset] = Format::kF32;
    } else if (slot.kind == SlotKind::kDouble) {
      const double value = std::fabs(std::bit_cast<double>(slot.bits));
      if (value >= 0x1p51 && value < 0x1p55) magic[slot.offset] = Format::kF64;
    }
  }
  return magic;
}

}  // namespace cupel::emu
