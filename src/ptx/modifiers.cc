// SPDX-License-Identifier: Apache-2.0
#include "ptx/modifiers.h"

#include <charconv>
#include <unordered_map>

namespace cupel::ptx {
namespace {

constexpr auto kTexts = std::to_array<std::string_view>({
    "",
    "",
#define CUPEL_MODIFIER(enumerator, text) text,
#include "ptx/modifiers.def"
});

// The first rows of modifiers.def are the types.
constexpr int kFirstType = static_cast<int>(Modifier::kPred) - static_cast<int>(Type::kPred);
static_assert(static_cast<int>(Modifier::kUE8M0x2) - static_cast<int>(Type::kUE8M0x2) ==
              kFirstType);

}  // namespace

Modifier ModifierNamed(std::string_view text) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Modifier> modifiers;
    for (size_t i = 2; i < kTexts.size(); ++i) {
      modifiers.emplace(kTexts[i], static_cast<Modifier>(i));
    }
    return modifiers;
  }();
  const auto found = table.find(text);
  return found == table.end() ? Modifier::kUnknown : found->second;
}

std::string_view Name(Modifier modifier) { return kTexts[static_cast<size_t>(modifier)]; }

Type TypeOf(Modifier modifier) {
  const bool is_type = modifier >= Modifier::kPred && modifier <= Modifier::kUE8M0x2;
  return is_type ? static_cast<Type>(static_cast<int>(modifier) - kFirstType) : Type::kNone;
}

Space SpaceOf(Modifier modifier) {
  switch (modifier) {
    case Modifier::kGlobal:
      return Space::kGlobal;
    case Modifier::kShared:
    case Modifier::kSharedCta:
    case Modifier::kSharedCluster:
      return Space::kShared;
    case Modifier::kLocal:
      return Space::kLocal;
    case Modifier::kConst:
      return Space::kConst;
    case Modifier::kParam:
    case Modifier::kParamEntry:
    case Modifier::kParamFunc:
      return Space::kParam;
    default:
      return Space::kNone;
  }
}

Modifier ModifierOf(Type type) {
  return static_cast<Modifier>(static_cast<int>(type) + kFirstType);
}

std::optional<Shape> ShapeNamed(std::string_view text) {
  Shape shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](char letter, uint16_t* value) {
    if (end - at < 2 || *at != letter || at[1] < '1' || at[1] > '9') return false;
    const auto [next, error] = std::from_chars(at + 1, end, *value);
    at = next;
    return error == std::errc() && *value <= 9999;
  };
  const bool whole =
      number('m', &shape.m) && number('n', &shape.n) && number('k', &shape.k) && at == end;
  return whole ? std::optional(shape) : std::nullopt;
}

Types TypesOf(const Modifiers& modifiers) {
  Types types;
  for (const Modifier modifier : modifiers) {
    if (const Type type = TypeOf(modifier); type != Type::kNone) types.Add(type);
  }
  return types;
}

}  // namespace cupel::ptx
