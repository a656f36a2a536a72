// Statements in which lanes diverge.
// SPDX-License-Identifier: Apache-2.0
#include "generator_state.h"

namespace cupel::reference {

void Generator::If(int depth) {
  const std::string otherwise = Label(), end = Label();
  Emit("@{}{} bra {}", Chance(2) ? "!" : "", Register('p'), otherwise);
  Statements(1 + Below(4), depth + 1);
  const bool has_else = Chance(2);
  if (has_else) Emit("bra {}", end);
  out_ += otherwise + ":\n";
  if (has_else) {
    Statements(1 + Below(3), depth + 1);
    out_ += end + ":\n";
  }
}

void Generator::Loop(int depth) {
  const std::string begin = Label(), end = Label();
  Emit("and.b32 %n{}, {}, 3", depth, Register('r'));  // lanes have different trip counts
  const bool keeps = Chance(2) && copies_ < kCopies;
  const int copy = keeps ? copies_++ : 0;
  if (keeps) Emit("setp.ne.u32 %s{}, 0, 0", depth);
  out_ += begin + ":\n";
  if (keeps) Kept(depth, copy);
  Statements(1 + Below(3), depth + 1);
  if (Chance(2)) Emit("@{} bra {}", Register('p'), end);
  Statements(1 + Below(2), depth + 1);
  Emit("sub.u32 %n{0}, %n{0}, 1", depth);
  Emit("setp.ge.s32 %q, %n{}, 0", depth);
  Emit("@%q bra {}", begin);
  out_ += end + ":\n";
}

/// A copy that the next iteration of the loop uses after its original has changed. Both registers
/// are written only here.
void Generator::Kept(int depth, int copy) {
  const bool before = Chance(2);
  const std::string use =
      fmt::format("@%s{} add.u32 {}, {}, %v{}", depth, Register('r'), Register('r'), copy);
  if (before) Line(use);
  Emit("sub.u32 %u{}, {}, {}", copy, Register('r'), Register('r'));
  if (!before) Line(use);
  const std::string skip = Chance(2) ? Label() : "";
  if (!skip.empty()) {  // the first iteration must not skip, or the copy has no value
    Emit("setp.lt.and.s32 %q, {}, {}, %s{}", Register('r'), Register('r'), depth);
    Emit("@%q bra {}", skip);
  }
  Emit("mov.b32 %v{0}, %u{0}", copy);
  if (!skip.empty()) out_ += skip + ":\n";
  Emit("setp.eq.u32 %s{}, 0, 0", depth);
}

void Generator::Switch(int depth) {
  const std::string table = Label(), end = Label();
  const std::string labels[] = {Label(), Label(), Label()};
  Emit("and.b32 %j, {}, 3", Register('r'));
  out_ += fmt::format("{}: .branchtargets {}, {}, {}, {};\n", table, labels[0], labels[1],
                      labels[2], labels[1]);
  Emit("brx.idx %j, {}", table);
  for (int i = 0; i < 3; ++i) {
    out_ += labels[i] + ":\n";
    Statements(1 + Below(2), depth + 1);
    if (i < 2 && !Chance(4)) Emit("bra {}", end);  // otherwise falls through
  }
  out_ += end + ":\n";
}

void Generator::Statement(int depth) {
  const size_t pick = Below(100);
  if (pick < 62) return Arithmetic();
  if (pick < 74) return Guarded();
  if (pick < 76) return Carry();
  if (pick < 78) return Local();
  if (pick < 80) return Atomic();
  if (pick < 82) return Commutative();
  if (pick < 83) return Call();
  if (depth >= 3) return Arithmetic();
  if (depth > 0) {
    if (pick < 90) return If(depth);
    if (pick < 93) return Loop(depth);
    return pick < 95 ? Switch(depth) : Guarded();
  }
  if (pick < 87) return If(depth);
  if (pick < 89) return Loop(depth);
  if (pick < 90) return Switch(depth);
  if (pick < 92) return Exchange();
  if (pick < 94) return program_.block % 32 == 0 ? Shuffle() : Together();
  if (pick < 97) return Together();
  return Masked();
}

}  // namespace cupel::reference
