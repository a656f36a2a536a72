// SPDX-License-Identifier: Apache-2.0
#include "generator.h"

#include <fmt/format.h>

#include <cstring>

#include "base/random.h"
#include "generator_ops.h"
#include "operation.h"

namespace cupel::reference {
namespace {

constexpr int kCopies = 32;

const char* RegisterType(int bits) {
  return bits == 1 ? "pred" : (bits == 16 ? "b16" : (bits == 32 ? "b32" : "b64"));
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(Random(seed).Fork("ptx program")) {
    program_.seed = seed;
  }
  Program Run();

 private:
  size_t Below(size_t bound) { return random_.Below(bound); }
  bool Chance(size_t in) { return Below(in) == 0; }
  std::string Register(char letter) {
    return fmt::format("%{}{}", letter, Below(static_cast<size_t>(ClassOf(letter).count)));
  }
  std::string Label() { return fmt::format("L{}", labels_++); }
  std::string Source(char letter);
  void Line(const std::string& text) { out_ += text + ";\n"; }
  template <class... A>
  void Emit(fmt::format_string<A...> format, A&&... a) {
    Line(fmt::format(format, std::forward<A>(a)...));
  }

  void Functions();
  void Prologue();
  void Epilogue();
  void Statement(int depth);
  void Statements(size_t count, int depth) {
    for (size_t i = 0; i < count; ++i) Statement(depth);
  }
  void Arithmetic();
  void Guarded();
  void If(int depth);
  void Loop(int depth);
  void Kept(int depth, int copy);
  void Switch(int depth);
  void Carry();
  void Local();
  void Atomic();
  void Commutative();
  void Call();
  void Exchange();
  void Shuffle();
  void Together();
  void Masked();

  Random random_;
  Program program_;
  std::string out_;
  int labels_ = 0;
  int copies_ = 0;
};

/// Mostly a register; now and then a constant.
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

void Generator::Arithmetic() {
  const std::vector<Template>& all = Templates();
  const Template& t = all[Below(all.size())];
  std::string text = t.mnemonic + " " + Register(t.classes[0]);
  // One constant at most, as some instructions take no two; those of fields are bounded.
  bool constants = t.mnemonic.starts_with("bf");
  for (size_t i = 1; i < t.classes.size(); ++i) {
    const bool last = i + 1 == t.classes.size();
    std::string operand =
        constants || t.classes.size() == 2 ? Register(t.classes[i]) : Source(t.classes[i]);
    constants |= operand[0] != '%';
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
      Arithmetic();
  }
  // The last line alone: what prepares its operands harms nobody.
  const size_t last = out_.rfind('\n', out_.size() - 2);
  const size_t at = last == out_.npos || last < before ? before : last + 1;
  out_.insert(at, fmt::format("@{}{} ", Chance(2) ? "!" : "", Register('p')));
}

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
  Emit("and.b32 %n{}, {}, 3", depth, Register('r'));  // trips differ among lanes
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

/// A copy that is used in the next turn of the loop, when its original has changed: both registers
/// are written at this place only.
void Generator::Kept(int depth, int copy) {
  const bool before = Chance(2);
  const std::string use =
      fmt::format("@%s{} add.u32 {}, {}, %v{}", depth, Register('r'), Register('r'), copy);
  if (before) Line(use);
  Emit("sub.u32 %u{}, {}, {}", copy, Register('r'), Register('r'));
  if (!before) Line(use);
  const std::string skip = Chance(2) ? Label() : "";
  if (!skip.empty()) {  // the first turn must not skip, or the copy has no value
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
    if (i < 2 && !Chance(4)) Emit("bra {}", end);  // else falls through
  }
  out_ += end + ":\n";
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

/// On the thread's own cell, where the old value is defined too.
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

/// On cells that all threads update in any order.
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

/// Values of other threads of the block through shared memory.
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

/// In a branch or under a guard, with the mask of the lanes that take it.
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

void Generator::Functions() {
  for (int i = 0; i < 2; ++i) {
    out_ += fmt::format(
        ".func (.param .b32 v) g{}_{}(.param .b32 a, .param .b64 b)\n{{\n"
        ".reg .b32 %s<4>; .reg .b64 %t; .reg .pred %c;\n"
        "ld.param.b32 %s0, [a];\nld.param.b64 %t, [b];\ncvt.u32.u64 %s1, %t;\n",
        program_.seed, i);
    Emit("{} %s2, %s0, %s1", Chance(2) ? "mul.lo.u32" : "add.u32");
    Emit("setp.lt.u32 %c, %s2, {}", random_() & 0x7fffffff);
    Emit("@%c bra R{}", i);
    Emit("xor.b32 %s2, %s2, %s0");
    Emit("@%c ret");
    out_ += fmt::format("R{}:\nst.param.b32 [v+0], %s2;\nret;\n}}\n", i);
  }
  program_.functions = std::move(out_);
  out_.clear();
}

void Generator::Prologue() {
  static const uint32_t blocks[] = {32, 64, 96, 128, 40, 17};
  program_.block = blocks[Below(std::size(blocks))];
  program_.grid = 1 + static_cast<uint32_t>(Below(3));
  out_ = fmt::format(
      ".visible .entry p{}(.param .u64 in, .param .u64 out, .param .u64 common)\n{{\n"
      ".shared .align 8 .b8 cells[{}];\n.shared .align 8 .b8 sums[192];\n"
      ".local .align 16 .b8 frame[48];\n"
      ".reg .b64 %in, %out, %common, %own, %a, %nz64;\n"
      ".reg .b32 %me, %j, %k, %m, %live, %mine, %n<4>, %nz32;\n.reg .b16 %nz16;\n.reg .pred %q, "
      "%s<4>;\n"
      ".reg .b32 %u<{}>, %v<{}>;\n",
      program_.seed, 8 * program_.block, kCopies, kCopies);
  for (const RegisterClass& c : RegisterClasses()) {
    out_ += fmt::format(".reg .{} %{}<{}>;\n", RegisterType(c.bits), c.letter, c.count);
  }
  for (const char* parameter : {"in", "out", "common"}) {
    Emit("ld.param.u64 %{0}, [{0}]", parameter);
  }
  Emit("mov.u32 %me, %tid.x");
  Emit("mov.u32 %j, %ctaid.x");
  Emit("mad.lo.u32 %k, %j, {}, %me", program_.block);
  Emit("mul.wide.u32 %a, %k, {}", kProgramInput);
  Emit("add.s64 %in, %in, %a");
  Emit("mul.wide.u32 %a, %k, {}", kProgramOutput);
  Emit("add.s64 %out, %out, %a");
  Emit("add.s64 %own, %out, {}", kProgramOutput - 16);
  // The lanes of this warp that there are.
  Emit("setp.lt.u32 %q, %me, {}", program_.block / 32 * 32);
  Emit("selp.b32 %live, -1, {}, %q", (1u << (program_.block % 32)) - 1);
  Emit("shl.b32 %mine, %me, 3");
  Emit("mov.u32 %k, cells");
  Emit("add.u32 %mine, %mine, %k");
  Emit("mov.u32 %k, sums");
  for (int i = 0; i < 48; i += 8) Emit("st.local.b64 [frame+{}], {}", i, random_() >> 1);
  // Every thread clears the same words with the same value, in turn.
  Emit("setp.eq.u32 %q, %me, 0");
  for (int i = 0; i < 192; i += 8) Emit("@%q st.shared.b64 [%k+{}], {}", i, i < 64 ? 0 : 77);
  Emit("bar.sync 0");
  for (const RegisterClass& c : RegisterClasses()) {
    for (int i = 0; i < c.count; ++i) {
      if (c.bits == 1) {
        Emit("ld.global.b8 %nz16, [%in+{}]", Below(kProgramInput));
        Emit("and.b16 %nz16, %nz16, 1");
        Emit("setp.eq.s16 %p{}, %nz16, 1", i);
      } else {
        const auto size = static_cast<size_t>(c.bits / 8);
        Emit("ld.global.b{} %{}{}, [%in+{}]", c.bits, c.letter, i,
             size * Below(kProgramInput / size));
      }
    }
  }
  program_.prologue = std::move(out_);
  out_.clear();
}

void Generator::Epilogue() {
  Emit("bar.sync 0");
  Emit("and.b32 %j, %me, 31");
  Emit("shl.b32 %j, %j, 2");
  Emit("mov.u32 %k, sums");
  Emit("add.u32 %k, %k, %j");
  for (const RegisterClass& c : RegisterClasses()) {
    for (int i = 0; i < c.count; ++i) {
      const size_t at = 8 * program_.slots.size();
      program_.slots.push_back({c.bits, c.format});
      if (c.bits == 1) {
        Emit("selp.u32 %j, 1, 0, %p{}", i);
        Emit("st.global.b32 [%out+{}], %j", at);
      } else {
        Emit("st.global.b{} [%out+{}], %{}{}", c.bits, at, c.letter, i);
      }
    }
  }
  const size_t at = 8 * program_.slots.size();
  program_.slots.push_back({32, nullptr});
  Emit("ld.shared.b32 %j, [%k]");
  Emit("st.global.b32 [%out+{}], %j", at);
  // Some threads leave early.
  Emit("@%p0 exit");
  Emit("st.global.b32 [%out+{}], %r0", at + 8);
  program_.slots.push_back({32, nullptr});
  out_ += "ret;\n}\n";
  program_.epilogue = std::move(out_);
  out_.clear();
}

Program Generator::Run() {
  Functions();
  Prologue();
  const size_t count = 10 + Below(40);
  for (size_t i = 0; i < count; ++i) {
    Statement(0);
    program_.chunks.push_back(std::move(out_));
    out_.clear();
  }
  Epilogue();
  return std::move(program_);
}

uint64_t LoadWord(const std::vector<std::byte>& bytes, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool SlotsAgree(const Slot& slot, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (slot.format == nullptr) return false;
  const Format& format = *slot.format;
  for (int at = 0; at < slot.bits; at += format.bits) {
    const uint64_t x = Truncate(a >> at, format.bits), y = Truncate(b >> at, format.bits);
    if (x != y && !(IsNan(x, format) && IsNan(y, format))) return false;
  }
  return true;
}

}  // namespace

std::string Program::Body() const {
  std::string text;
  for (const std::string& chunk : chunks) text += chunk;
  return text;
}

Program GenerateProgram(uint64_t seed) { return Generator(seed).Run(); }

std::vector<std::byte> ProgramInputs(const Program& program) {
  Random random = Random(program.seed).Fork("inputs");
  std::vector<std::byte> bytes(program.grid * program.block * kProgramInput);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    // Small numbers, floats around one (of several formats), and any bits.
    static const uint64_t patterns[] = {0x3f8000003f800000, 0x3c003c003c003c00, 0x4049000000000005,
                                        0x0000000000000000, 0x7f7fffff7f800000, 0x8000000080000001};
    uint64_t value = random();
    if (random.Below(3) == 0) value = patterns[random.Below(6)] ^ (value & 0x000300070001000f);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  return bytes;
}

std::string CompareResults(const Program& program, const std::vector<std::byte>& expected,
                           const std::vector<std::byte>& got) {
  for (size_t at = 0; at + 8 <= expected.size(); at += 8) {
    const uint64_t a = LoadWord(expected, at), b = LoadWord(got, at);
    const size_t slot = at % kProgramOutput / 8;
    if (slot < program.slots.size() ? SlotsAgree(program.slots[slot], a, b) : a == b) continue;
    std::string name = fmt::format("word {}", slot);
    size_t rest = slot;
    for (const RegisterClass& c : RegisterClasses()) {
      const auto count = static_cast<size_t>(c.count);
      if (rest < count) {
        name = fmt::format("%{}{}", c.letter, rest);
        break;
      }
      rest -= count;
    }
    return fmt::format("{} of thread {} is {:#x}, should be {:#x}", name, at / kProgramOutput, b,
                       a);
  }
  return {};
}

}  // namespace cupel::reference
