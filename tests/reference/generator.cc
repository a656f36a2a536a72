// A program's functions, and the code before and after its statements.
// SPDX-License-Identifier: Apache-2.0
#include "generator_state.h"

namespace cupel::reference {
namespace {

const char* RegisterType(int bits) {
  return bits == 1 ? "pred" : (bits == 16 ? "b16" : (bits == 32 ? "b32" : "b64"));
}

}  // namespace

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
      ".reg .b32 %me, %j, %k, %m, %live, %mine, %n<4>, %nz32, %pos, %len;\n.reg .b16 %nz16;\n.reg "
      ".pred %q, "
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
  // The lanes that exist in this warp.
  Emit("setp.lt.u32 %q, %me, {}", program_.block / 32 * 32);
  Emit("selp.b32 %live, -1, {}, %q", (1u << (program_.block % 32)) - 1);
  Emit("shl.b32 %mine, %me, 3");
  Emit("mov.u32 %k, cells");
  Emit("add.u32 %mine, %mine, %k");
  Emit("mov.u32 %k, sums");
  for (int i = 0; i < 48; i += 8) Emit("st.local.b64 [frame+{}], {}", i, random_() >> 1);
  // Thread 0 clears the words.
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
  // Some threads exit early.
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

std::string Program::Body() const {
  std::string text;
  for (const std::string& chunk : chunks) text += chunk;
  return text;
}

Program GenerateProgram(uint64_t seed) { return Generator(seed).Run(); }

Program Minimised(Program program, const std::function<bool(const Program&)>& fails) {
  for (size_t i = program.chunks.size(); i-- > 0;) {
    Program shorter = program;
    shorter.chunks.erase(shorter.chunks.begin() + static_cast<std::ptrdiff_t>(i));
    if (fails(shorter)) program = std::move(shorter);
  }
  return program;
}

}  // namespace cupel::reference
