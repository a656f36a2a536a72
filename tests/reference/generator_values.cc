// Statements that compute, and statements that move values through memory.
// SPDX-License-Identifier: Apache-2.0
#include "generator_state.h"

namespace cupel::reference {

namespace {

bool IsWideField(const Template& t) {
  return (t.mnemonic.starts_with("bfe") || t.mnemonic.starts_with("bfi.")) &&
         t.mnemonic.ends_with("64");
}

/// Instructions that NVIDIA's compiler (CUDA 13.0, driver 580) gets wrong under a guard: it also
/// writes results to lanes whose guard is false (all of testp's, the upper half of 16-bit set's).
bool LosesGuard(const Template& t) {
  return t.mnemonic.starts_with("testp") ||
         (t.mnemonic.starts_with("set.") && t.mnemonic.ends_with("16"));
}

}  // namespace

/// Usually a register, sometimes a constant.
std::string Generator::Source(char letter) {
  const RegisterClass& c = ClassOf(letter);
  if (!Chance(8) || letter == 'p' || (c.format != nullptr && c.bits == 16)) return Register(letter);
  if (letter == 'f') {
    static const uint32_t values[] = {0x3f800000, 0xbf000000, 0x80000000,
                                      0x7f800000, 0x00400000, 0x40490fdb};
    return fmt::format("0f{:08X}", values[Below(std::size(values))]);
  }
  if (letter == 'e') {
    static const uint64_t values[] = {0x3ff0000000000000, 0xbfe0000000000000, 0x3690000000000000,
                                      0x400921fb54442d18};
    return fmt::format("0d{:016X}", values[Below(std::size(values))]);
  }
  if (c.format != nullptr) return Register(letter);
  static const int64_t values[] = {0, 1, 2, 5, 31, 32, 100, -1, -3, 255, 32767};
  return fmt::format("{}", values[Below(std::size(values))]);
}

void Generator::Arithmetic(bool guarded) {
  const std::vector<Template>& all = Templates();
  const Template* chosen = &all[Below(all.size())];
  while (guarded && LosesGuard(*chosen)) chosen = &all[Below(all.size())];
  const Template& t = *chosen;
  std::string text = t.mnemonic + " " + Register(t.classes[0]);
  // At most one constant, since some instructions do not accept two. None for bit fields.
  bool constants = t.mnemonic.starts_with("bf");
  for (size_t i = 1; i < t.classes.size(); ++i) {
    const bool last = i + 1 == t.classes.size();
    std::string operand =
        constants || t.classes.size() == 2 ? Register(t.classes[i]) : Source(t.classes[i]);
    constants |= operand[0] != '%';
    // PTX leaves positions and lengths above 255 undefined. GPUs use the low byte only for 32 bits.
    if (IsWideField(t) && t.classes[i] == 'r') {
      const char* bounded = last ? "%len" : "%pos";
      Emit("and.b32 {}, {}, 255", bounded, operand);
      operand = bounded;
    }
    if (t.divides && last) {
      const char* kind = t.classes[i] == 'h' ? "16" : (t.classes[i] == 'r' ? "32" : "64");
      Emit("or.b{} %nz{}, {}, 1", kind, kind, Register(t.classes[i]));
      operand = std::string("%nz") + kind;
    }
    text += ", " + operand;
  }
  Line(text + t.suffix);
}

void Generator::Guarded() {
  const size_t before = out_.size();
  switch (Below(8)) {
    case 0:
      Atomic();
      break;
    case 1:
      Commutative();
      break;
    case 2:
      Local();
      break;
    default:
      Arithmetic(true);
  }
  // Guard only the last line; the lines before only prepare its operands.
  const size_t last = out_.rfind('\n', out_.size() - 2);
  const size_t at = last == out_.npos || last < before ? before : last + 1;
  out_.insert(at, fmt::format("@{}{} ", Chance(2) ? "!" : "", Register('p')));
}

void Generator::Carry() {
  const bool wide = Chance(3);
  const char c = wide ? 'd' : 'r';
  const char* type = wide ? "u64" : "u32";
  const char* op = Chance(2) ? "add" : "sub";
  Emit("{}.cc.{} {}, {}, {}", op, type, Register(c), Register(c), Register(c));
  Emit("{}c.cc.{} {}, {}, {}", op, type, Register(c), Register(c), Register(c));
  Emit("{}c.{} {}, {}, {}", op, type, Register(c), Register(c), Register(c));
  if (Chance(2)) {
    Emit("mad.lo.cc.u32 {}, {}, {}, {}", Register('r'), Register('r'), Register('r'),
         Register('r'));
    Emit("madc.hi.u32 {}, {}, {}, {}", Register('r'), Register('r'), Register('r'), Register('r'));
  }
}

void Generator::Local() {
  Emit("and.b32 %j, {}, 3", Register('r'));
  Emit("shl.b32 %j, %j, 3");
  Emit("mov.u32 %k, frame");
  Emit("add.u32 %k, %k, %j");
  switch (Below(3)) {
    case 0:
      Emit("st.local.b32 [%k+4], {}", Register('r'));
      Emit("ld.local.b32 {}, [%k]", Register('r'));
      break;
    case 1:
      Emit("st.local.v2.b32 [%k], {{{}, {}}}", Register('r'), Register('r'));
      Emit("ld.local.s16 {}, [frame+{}]", Register('r'), 2 * Below(16));
      break;
    default:
      Emit("ld.local.b64 {}, [%k]", Register('d'));
      Emit("st.local.b8 [%k+3], {}", Register('h'));
      Emit("ld.local.u8 {}, [%k+{}]", Register('h'), Below(8));
  }
}

/// Atomics on the thread's own cell, where the old value is also defined.
void Generator::Atomic() {
  static const char* const ops[] = {"add.u32", "min.s32", "max.u32", "inc.u32", "dec.u32",
                                    "and.b32", "or.b32",  "xor.b32", "exch.b32"};
  static const char* const wide[] = {"add.u64", "min.s64", "max.u64", "and.b64", "exch.b64"};
  if (Chance(4)) {
    Emit("atom.global.cas.b32 {}, [%own], {}, {}", Register('r'), Register('r'), Register('r'));
  } else if (Chance(3)) {
    Emit("atom.global.{} {}, [%own+8], {}", wide[Below(std::size(wide))], Register('d'),
         Register('d'));
  } else {
    Emit("atom.global.{} {}, [%own], {}", ops[Below(std::size(ops))], Register('r'), Register('r'));
  }
}

/// Atomics on cells that all threads update in any order.
void Generator::Commutative() {
  static const char* const ops[] = {"add.u32", "min.s32", "max.u32",
                                    "or.b32",  "and.b32", "xor.b32"};
  const size_t which = Below(std::size(ops));
  Emit("and.b32 %j, {}, 7", Register('r'));
  if (Chance(2)) {
    Emit("mul.wide.u32 %a, %j, 4");
    Emit("add.s64 %a, %common, %a");
    Emit("red.global.{} [%a+{}], {}", ops[which], 32 * which, Register('r'));
  } else {
    Emit("shl.b32 %j, %j, 2");
    Emit("mov.u32 %k, sums");
    Emit("add.u32 %k, %k, %j");
    Emit("red.shared.{} [%k+{}], {}", ops[which], 32 * which, Register('r'));
  }
}

void Generator::Call() {
  out_ += "{\n.param .b32 a0;\n.param .b64 a1;\n.param .b32 v0;\n";
  Emit("st.param.b32 [a0+0], {}", Register('r'));
  Emit("st.param.b64 [a1+0], {}", Register('d'));
  Emit("call (v0), g{}_{}, (a0, a1)", program_.seed, Below(2));
  Emit("ld.param.b32 {}, [v0+0]", Register('r'));
  out_ += "}\n";
}

}  // namespace cupel::reference
