// Statements that the threads of a warp or of a block execute together.
// SPDX-License-Identifier: Apache-2.0
#include "generator_state.h"

namespace cupel::reference {

/// Reads values of other threads of the block through shared memory.
void Generator::Exchange() {
  static const char letters[] = {'r', 'd', 'f', 'e', 'y', 'h'};
  const char c = letters[Below(std::size(letters))];
  const int bits = ClassOf(c).bits;
  Emit("st.shared.b{} [%mine], {}", bits, Register(c));
  Emit("bar.sync 0");
  Emit("add.u32 %j, %me, {}", 1 + Below(program_.block));
  Emit("rem.u32 %j, %j, {}", program_.block);
  Emit("shl.b32 %j, %j, 3");
  Emit("mov.u32 %k, cells");
  Emit("add.u32 %k, %k, %j");
  Emit("ld.shared.b{} {}, [%k]", bits, Register(c));
  Emit("bar.sync 0");
}

void Generator::Shuffle() {
  static const char* const modes[] = {"up", "down", "bfly", "idx"};
  const std::string mode = modes[Below(4)];
  static const int segments[] = {0, 0x1000, 0x1800, 0x1c00};
  const int clamp = segments[Below(4)] | (mode == "up" ? 0 : 0x1f);
  const char c = Chance(3) ? 'f' : (Chance(4) ? 'w' : 'r');
  const std::string predicate = Chance(2) ? "|" + Register('p') : "";
  const std::string by = Chance(2) ? Register('r') : fmt::format("{}", Below(32));
  Emit("shfl.sync.{}.b32 {}{}, {}, {}, {}, -1", mode, Register(c), predicate, Register(c), by,
       clamp);
}

/// Votes, matches, reductions of the whole warp.
void Generator::Together() {
  switch (Below(6)) {
    case 0:
      Emit("vote.sync.ballot.b32 {}, {}, %live", Register('r'), Register('p'));
      return;
    case 1: {
      static const char* const kinds[] = {"all", "any", "uni"};
      Emit("vote.sync.{}.pred {}, {}{}, %live", kinds[Below(3)], Register('p'),
           Chance(2) ? "!" : "", Register('p'));
      return;
    }
    case 2:
      Emit("and.b32 %j, {}, 5", Register('r'));
      Emit("match.any.sync.b32 {}, %j, %live", Register('r'));
      return;
    case 3:
      Emit("match.all.sync.b64 {}|{}, {}, %live", Register('r'), Register('p'), Register('d'));
      return;
    case 4: {
      static const char* const ops[] = {"add.u32", "min.s32", "max.u32", "and.b32",
                                        "or.b32",  "xor.b32", "max.s32"};
      Emit("redux.sync.{} {}, {}, %live", ops[Below(std::size(ops))], Register('r'), Register('r'));
      return;
    }
    default:
      Emit("bar.red.popc.u32 {}, 0, {}", Register('r'), Register('p'));
  }
}

/// Warp instructions in a branch or under a guard, with the mask of the lanes that execute them.
void Generator::Masked() {
  if (Chance(2)) {
    const std::string p = Register('p');
    const char* sign = Chance(2) ? "!" : "";
    Emit("vote.sync.ballot.b32 %m, {}{}, %live", sign, p);
    Emit("bfind.u32 %j, %m");
    Emit("@{}{} redux.sync.max.u32 {}, {}, %m", sign, p, Register('r'), Register('r'));
    Emit("@{}{} shfl.sync.idx.b32 {}, {}, %j, 31, %m", sign, p, Register('f'), Register('f'));
    Emit("@{}{} match.any.sync.b32 {}, {}, %m", sign, p, Register('r'), Register('r'));
    return;
  }
  const std::string end = Label(), p = Register('p');
  Emit("vote.sync.ballot.b32 %m, {}, %live", p);
  Emit("mov.pred %q, {}", p);
  Emit("@!%q bra {}", end);
  Statements(1 + Below(2), 3);
  Emit("redux.sync.add.u32 {}, {}, %m", Register('r'), Register('r'));
  Statements(1, 3);
  Emit("bfind.u32 %j, %m");
  Emit("shfl.sync.idx.b32 {}, {}, %j, 31, %m", Register('r'), Register('r'));
  Emit("vote.sync.ballot.b32 {}, {}, %m", Register('r'), Register('p'));
  Emit("bar.warp.sync %m");
  out_ += end + ":\n";
}

}  // namespace cupel::reference
