// SPDX-License-Identifier: Apache-2.0
#include "forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "ptx/names.h"

namespace cupel::reference {
namespace {

using ptx::Type;

std::vector<std::string> Split(std::string_view key) {
  std::vector<std::string> words;
  while (true) {
    const size_t dot = key.find('.');
    words.emplace_back(key.substr(0, dot));
    if (dot == key.npos) return words;
    key.remove_prefix(dot + 1);
  }
}

/// Whether a key belongs to forms of several micro-ops, which are in ListedForms, or to no form.
bool IsListed(std::string_view key, const std::vector<std::string>& words) {
  static const char* const listed[] = {"pack",       "carry", "addc",  "subc", "set",   "atom",
                                       "ld",         "st",    "shfl",  "vote", "match", "redux",
                                       "activemask", "lop3",  "clock", "timer"};
  const bool half = words.back() == "low" || words.back() == "high";  // half of a packed comparison
  return key.front() == '@' || words[0].starts_with("part") || half ||
         std::any_of(std::begin(listed), std::end(listed),
                     [&](const char* op) { return words[0] == op; });
}

/// Compared by the kernels of blocks.h: wgmma, cp, mbarrier, mapa, getctarank. Not compared: the
/// matrix instructions of a warp; isspacep, whose results depend on addresses; elect, because PTX
/// leaves the lane open. ue8m0 has no sign, and PTX does not define what negative numbers become.
bool IsExempt(const std::vector<std::string>& words) {
  static const char* const exempt[] = {"mma",       "wmma", "ldmatrix",  "stmatrix",
                                       "movmatrix", "cp",   "mbarrier",  "isspacep",
                                       "elect",     "mapa", "getctarank"};
  const bool scale =
      std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "ue8m0x2"; });
  return scale || std::any_of(std::begin(exempt), std::end(exempt),
                              [&](const char* op) { return words[0] == op; });
}

/// Spellings that are not PTX, or that the decoder replaces before it looks into the table.
bool IsSpellingOnly(const std::vector<std::string>& words) {
  const bool is_signed = IsSigned(ptx::TypeNamed(words.back()));
  if (words[0] == "neg" || words[0] == "abs") return words.size() == 2 && words[1][0] == 'u';
  return words[0] == "shl" && is_signed;
}

const char* RegisterType(int bits) {
  return bits == 1 ? "pred" : (bits <= 16 ? "b16" : (bits == 32 ? "b32" : "b64"));
}

std::string Prologue(const Form& form, size_t number) {
  std::string text = fmt::format(
      ".visible .entry f{}(.param .u64 in, .param .u64 out)\n{{\n"
      ".reg .b64 %in, %out, %at; .reg .b32 %i, %j, %k;\n",
      number);
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    text += fmt::format(".reg .{} %a{};\n", RegisterType(form.inputs[i]), i);
  }
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    text += fmt::format(".reg .{} %o{};\n", RegisterType(form.outputs[i]), i);
  }
  text +=
      "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
      "mov.u32 %i, %tid.x;\nmov.u32 %j, %ctaid.x;\nmov.u32 %k, %ntid.x;\n"
      "mad.lo.u32 %i, %j, %k, %i;\n";
  text += fmt::format("mul.wide.u32 %at, %i, {};\nadd.s64 %in, %in, %at;\n", kOperandBytes);
  text += fmt::format("mul.wide.u32 %at, %i, {};\nadd.s64 %out, %out, %at;\n", kResultBytes);
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    if (form.inputs[i] == 1) {
      text += fmt::format("ld.global.u32 %j, [%in+{}];\nsetp.ne.u32 %a{}, %j, 0;\n", 8 * i, i);
    } else {
      text += fmt::format("ld.global.{} %a{}, [%in+{}];\n", RegisterType(form.inputs[i]), i, 8 * i);
    }
  }
  return text;
}

std::string Kernel(const Form& form, size_t number) {
  std::string text = Prologue(form, number) + form.body;
  for (size_t i = 0; i + form.body_stores < form.outputs.size(); ++i) {
    if (form.outputs[i] == 1) {
      text += fmt::format("selp.u32 %j, 1, 0, %o{};\nst.global.u32 [%out+{}], %j;\n", i, 8 * i);
    } else {
      text +=
          fmt::format("st.global.{} [%out+{}], %o{};\n", RegisterType(form.outputs[i]), 8 * i, i);
    }
  }
  return text + "ret;\n}\n";
}

// --- values ----------------------------------------------------------------------------------

constexpr uint64_t kEdges64[] = {0,
                                 1,
                                 2,
                                 63,
                                 64,
                                 ~uint64_t{0},
                                 uint64_t{1} << 63,
                                 ~uint64_t{0} >> 1,
                                 0x7ff0000000000000,   // infinity
                                 0xfff0000000000000,   // -infinity
                                 0x7ff8000000000001,   // NaN
                                 0x3ff0000000000000,   // 1
                                 0xbff0000000000000,   // -1
                                 0x3fe0000000000000,   // 1/2
                                 0x4004000000000000,   // 5/2
                                 0x7fefffffffffffff,   // largest
                                 0x0010000000000000,   // smallest normal
                                 0x800fffffffffffff,   // largest subnormal, negative
                                 0x41dfffffffe00000,   // 2^31 - 1/2
                                 0xc1e0000000000000,   // -2^31
                                 0x43e0000000000000,   // 2^63
                                 0x43f0000000000000,   // 2^64
                                 0x36a0000000000000,   // 2^-149
                                 0x3690000000000000,   // 2^-150
                                 0x380fffffe0000000,   // just below f32's smallest normal
                                 0x47efffffefffffff};  // just below f32's overflow
constexpr uint64_t kEdges32[] = {
    0,          1,          2,          31,         32,         33,         0xffffffff,
    0x80000000, 0x7fffffff, 0x7f800000, 0xff800000, 0x7fc00001, 0x3f800000, 0xbf800000,
    0x3f000000, 0x40200000, 0x7f7fffff, 0x00800000, 0x807fffff, 0x4effffff, 0xcf000000,
    0x4f800000, 0x477ff000, 0x33000000, 0x0000ff80, 0x7c00fbff};
constexpr uint64_t kEdges16[] = {0,      1,      2,      0xffff, 0x8000, 0x7fff, 0x7c00,
                                 0xfc00, 0x7e01, 0x3c00, 0xbc00, 0x3800, 0x7bff, 0x0400,
                                 0x83ff, 0x7f80, 0xff80, 0x3f80, 0x7f7f, 0x0080, 0x807f,
                                 0x00ff, 0x4100, 0x3f00, 0xc0c0, 0x7e7e};
constexpr size_t kEdgeCount = std::size(kEdges64);
static_assert(std::size(kEdges32) == kEdgeCount && std::size(kEdges16) == kEdgeCount);

uint64_t Edge(int bits, size_t i) {
  i %= kEdgeCount;
  return bits > 32 ? kEdges64[i] : (bits == 32 ? kEdges32[i] : kEdges16[i]);
}

/// Random bits, small integers, and floats of all sizes.
uint64_t RandomValue(int bits, Random& random) {
  switch (random.Below(6)) {
    case 0:
      return Edge(bits, random.Below(kEdgeCount));
    case 1:
      return random.Below(200) - 100;
    case 2:
      return random() & random();
    case 3: {  // near one
      const double value = (random.Unit() - 0.5) * 16;
      if (bits == 64) return std::bit_cast<uint64_t>(value);
      if (bits == 32) return std::bit_cast<uint32_t>(static_cast<float>(value));
      return 0x3c00 ^ (random() & 0x87ff);
    }
    default:
      return random();
  }
}

uint64_t Load(std::span<const std::byte> bytes, size_t at, int bits) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return Truncate(value, bits);
}

/// Results are stored with the widths of their registers.
int StoredBits(int bits) { return bits == 1 ? 32 : std::max(bits, 16); }

/// Whether each part of a float result of a form without an operation is correct.
bool PartsAgree(const Form& form, uint64_t expected, uint64_t got, int bits) {
  if (form.float_result == nullptr) return expected == got;
  const Format& format = *form.float_result;
  for (int at = 0; at < bits; at += format.bits) {
    const uint64_t a = Truncate(expected >> at, format.bits);
    const uint64_t b = Truncate(got >> at, format.bits);
    if (a != b && !(IsNan(a, format) && IsNan(b, format))) return false;
  }
  return true;
}

}  // namespace

std::vector<Form> TableForms(std::span<const std::string> keys, std::vector<std::string>* unknown) {
  std::vector<Form> forms;
  for (const std::string& key : keys) {
    const std::vector<std::string> words = Split(key);
    if (IsListed(key, words) || IsSpellingOnly(words) || IsExempt(words)) continue;
    Form form;
    form.name = key;
    // The table spells b16, b32 and b64 of PTX as unsigned types.
    if (words[0] == "shl") form.name = "shl.b" + words.back().substr(1);
    const std::vector<std::string> spelled = Split(form.name);
    ptx::Modifiers modifiers;
    for (size_t i = 1; i < spelled.size(); ++i) modifiers.Add(ptx::ModifierNamed(spelled[i]));
    form.operation = FindOperation(ptx::OpcodeNamed(spelled[0]), modifiers);
    if (!form.operation) {
      unknown->push_back(key);
      continue;
    }
    form.inputs = form.operation->operand_bits;
    form.outputs = {form.operation->result_bits};
    form.body = form.name + " %o0";
    for (size_t i = 0; i < form.inputs.size(); ++i) form.body += fmt::format(", %a{}", i);
    form.body += ";\n";
    forms.push_back(std::move(form));
  }
  std::sort(forms.begin(), forms.end(),
            [](const Form& a, const Form& b) { return a.name < b.name; });
  return forms;
}

std::string FormModule(std::span<const Form> forms, size_t first) {
  std::string text = ".version 8.4\n.target sm_90\n.address_size 64\n";
  for (const Form& form : forms) text += Kernel(form, first++);
  return text;
}

std::vector<std::byte> FormInputs(const Form& form, size_t threads, uint64_t seed) {
  std::vector<std::byte> bytes(threads * kOperandBytes);
  Random random(seed);
  for (size_t t = 0; t < threads; ++t) {
    const bool edges = t < kEdgeCount * kEdgeCount;
    for (size_t i = 0; i < 4; ++i) {
      const int bits = i < form.inputs.size() ? form.inputs[i] : 64;
      const size_t pick = i == 0 ? t / kEdgeCount : (i == 1 ? t % kEdgeCount : random.Below(64));
      uint64_t value = edges ? Edge(bits, pick) : RandomValue(bits, random);
      if (bits == 1) {  // some warps agree
        const size_t warp = t / 32;
        value = warp % 4 < 2 ? warp % 2 : random.Below(2);
      }
      std::memcpy(bytes.data() + t * kOperandBytes + 8 * i, &value, sizeof value);
    }
  }
  return bytes;
}

Operands FormOperands(const Form& form, std::span<const std::byte> inputs, size_t thread) {
  Operands operands{};
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    const size_t at = thread * kOperandBytes + 8 * i;
    const int bits = form.inputs[i];
    operands[i] = bits == 1 ? (Load(inputs, at, 32) != 0 ? 1 : 0) : Load(inputs, at, bits);
  }
  return operands;
}

std::string CheckForm(const Form& form, std::span<const std::byte> inputs,
                      std::span<const std::byte> expected, std::span<const std::byte> got,
                      size_t thread) {
  const Operands operands = FormOperands(form, inputs, thread);
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const int bits = StoredBits(form.outputs[i]);
    const size_t at = thread * kResultBytes + 8 * i;
    const uint64_t is = Load(got, at, bits);
    uint64_t should = 0;
    bool right = false;
    if (form.operation) {
      const Operation& operation = *form.operation;
      should = operation.compute(operands);
      if (operation.result_is_signed && operation.result_bits < bits) {
        should = Truncate(static_cast<uint64_t>(SignExtend(should, operation.result_bits)), bits);
      }
      right = Agrees(operation, operands, should, is);
    } else {
      should = Load(expected, at, bits);
      right = PartsAgree(form, should, is, bits);
    }
    if (right) continue;
    std::string text = form.name + ":";
    for (size_t k = 0; k < form.inputs.size(); ++k) text += fmt::format(" {:#x}", operands[k]);
    return text + fmt::format(" -> result {} is {:#x}, should be {:#x} (thread {})", i, is, should,
                              thread);
  }
  return {};
}

}  // namespace cupel::reference
