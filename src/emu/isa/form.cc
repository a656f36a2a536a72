// SPDX-License-Identifier: Apache-2.0
#include "emu/isa/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "emu/isa/instructions.h"

namespace cupel::emu {
namespace {

bool StandsBehind(Micro micro) { return micro == Micro::kLow || micro == Micro::kHigh; }

[[noreturn]] void RejectRow(std::string_view text) {
  fmt::print(stderr, "cupel: the table of handlers has the unknown form '{}'\n", text);
  std::abort();
}

}  // namespace

ShadowRule Form::shadow() const {
  return micro != Micro::kNone ? RowOf(micro).shadow : RowOf(opcode).shadow;
}

size_t FormHash::operator()(const Form& form) const {
  uint64_t hash = static_cast<uint64_t>(form.opcode) << 8 | static_cast<uint64_t>(form.micro);
  for (const ptx::Modifier modifier : form.modifiers) {
    hash = (hash ^ static_cast<uint64_t>(modifier)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string Name(const Form& form) {
  std::string text;
  auto add = [&](std::string_view word) {
    if (!text.empty()) text += '.';
    text += word;
  };
  const std::string_view micro = RowOf(form.micro).text;
  if (form.micro != Micro::kNone && !StandsBehind(form.micro)) add(micro);
  if (form.opcode != ptx::Opcode::kUnknown) add(ptx::Name(form.opcode));
  for (const ptx::Modifier modifier : form.modifiers) add(ptx::Name(modifier));
  if (StandsBehind(form.micro)) add(micro);
  return text;
}

Form FormNamed(std::string_view text) {
  Form form;
  if (text.starts_with('@')) {
    form.micro = MicroNamed(text);
    if (form.micro == Micro::kNone) RejectRow(text);
    return form;
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t dot = std::min(text.find('.', at), text.size());
    const std::string_view word = text.substr(at, dot - at);
    const bool is_first = form.opcode == ptx::Opcode::kUnknown && form.modifiers.empty();
    const ptx::Opcode opcode = is_first ? ptx::OpcodeNamed(word) : ptx::Opcode::kUnknown;
    const ptx::Modifier modifier =
        at > 0 ? ptx::ModifierNamed(word) : ptx::Modifier::kUnknown;  // "pack" is both
    if (opcode != ptx::Opcode::kUnknown) {
      form.opcode = opcode;
    } else if (modifier != ptx::Modifier::kUnknown) {
      form.modifiers.Add(modifier);
    } else {
      if (form.micro != Micro::kNone) RejectRow(text);  // a form has at most one
      form.micro = MicroNamed(word);
      if (form.micro == Micro::kNone) RejectRow(text);
    }
    at = dot + 1;
  }
  return form;
}

}  // namespace cupel::emu
