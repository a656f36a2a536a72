// SPDX-License-Identifier: Apache-2.0
#include "ptx/opcode.h"

#include <array>
#include <cstddef>
#include <unordered_map>

namespace cupel::ptx {
namespace {

struct Row {
  std::string_view text;
  Writes writes;
};

constexpr auto kRows = [] {
  using enum Writes;
  return std::to_array<Row>({
      {"unknown", kFirst},
#define CUPEL_OPCODE(enumerator, text, writes, ...) {text, writes},
#include "ptx/opcodes.def"
  });
}();

}  // namespace

Opcode OpcodeNamed(std::string_view text) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Opcode> opcodes;
    for (size_t i = 1; i < kRows.size(); ++i) {
      opcodes.emplace(kRows[i].text, static_cast<Opcode>(i));
    }
    return opcodes;
  }();
  const auto found = table.find(text);
  return found == table.end() ? Opcode::kUnknown : found->second;
}

std::string_view Name(Opcode opcode) { return kRows[static_cast<size_t>(opcode)].text; }
Writes WritesOf(Opcode opcode) { return kRows[static_cast<size_t>(opcode)].writes; }

}  // namespace cupel::ptx
