// SPDX-License-Identifier: Apache-2.0
#include "ptx/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptx/names.h"

namespace cupel::ptx {
namespace {

struct TypeInfo {
  std::string_view name;
  int bytes;
};

// In the order of the enumeration.
constexpr auto kTypes = std::to_array<TypeInfo>({
    {"", 0},       {"pred", 0},   {"b8", 1},      {"b16", 2},   {"b32", 4},   {"b64", 8},
    {"b128", 16},  {"u8", 1},     {"u16", 2},     {"u32", 4},   {"u64", 8},   {"s8", 1},
    {"s16", 2},    {"s32", 4},    {"s64", 8},     {"f16", 2},   {"f16x2", 4}, {"bf16", 2},
    {"bf16x2", 4}, {"tf32", 4},   {"f32", 4},     {"f32x2", 8}, {"f64", 8},   {"e4m3", 1},
    {"e5m2", 1},   {"e4m3x2", 2}, {"e5m2x2", 2},  {"u16x2", 4}, {"s16x2", 4}, {"b1", 0},
    {"s4", 0},     {"u4", 0},     {"e2m1", 0},    {"e2m3", 0},  {"e3m2", 0},  {"e2m1x2", 1},
    {"e2m3x2", 2}, {"e3m2x2", 2}, {"ue8m0x2", 2},
});
static_assert(kTypes.size() == static_cast<size_t>(Type::kUE8M0x2) + 1);

constexpr auto kSpaces =
    std::to_array<std::string_view>({"", "global", "shared", "local", "const", "param", "reg"});
constexpr auto kLinkages =
    std::to_array<std::string_view>({"", "extern", "visible", "weak", "common"});

template <typename Enum, size_t kCount>
Enum Find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  const auto it = std::find(names.begin() + 1, names.end(), name);
  return it == names.end() ? Enum{} : static_cast<Enum>(it - names.begin());
}

}  // namespace

int SizeOf(Type type) { return kTypes[static_cast<size_t>(type)].bytes; }
std::string_view Name(Type type) { return kTypes[static_cast<size_t>(type)].name; }

Type TypeNamed(std::string_view name) {
  if (name.size() < 2 || name.size() > 7) return Type::kNone;
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return Type::kNone;
}

std::string_view Name(Space space) { return kSpaces[static_cast<size_t>(space)]; }
Space SpaceNamed(std::string_view name) { return Find<Space>(kSpaces, name); }
std::string_view Name(Linkage linkage) { return kLinkages[static_cast<size_t>(linkage)]; }
Linkage LinkageNamed(std::string_view name) { return Find<Linkage>(kLinkages, name); }

std::string Instr::Mnemonic() const {
  if (!unknown.empty()) return unknown;
  std::string text(Name(op));
  for (const Modifier modifier : modifiers) {
    text += '.';
    if (modifier == Modifier::kShape) {
      text += fmt::format("m{}n{}k{}", shape.m, shape.n, shape.k);
    } else {
      text += Name(modifier);
    }
  }
  return text;
}

const Function* Module::Find(std::string_view name) const {
  const auto alias = std::find_if(aliases.begin(), aliases.end(),
                                  [&](const Alias& entry) { return entry.name == name; });
  if (alias != aliases.end()) name = alias->target;
  const Function* declaration = nullptr;
  for (const Function& function : functions) {
    if (function.name != name) continue;
    if (!function.is_declaration) return &function;
    if (declaration == nullptr) declaration = &function;
  }
  return declaration;
}

}  // namespace cupel::ptx
