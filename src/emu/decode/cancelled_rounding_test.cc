// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/cancelled_rounding.h"

#include <gtest/gtest.h>

#include <string>

#include "ptx/parser.h"

namespace cupel::emu {
namespace {

/// The opcodes of the instructions found, "fma add shl".
std::string Found(const std::string& body) {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k()\n{\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<20>, %s<20>;\n.reg .f32 %f<20>, %g<20>;\n" +
      body + "\nret;\n}\n";
  auto module = ptx::Parse(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return "";
  const ptx::Function& function = module->functions[0];
  const std::vector<bool> found = CancelledRoundings(function);
  std::string names;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) continue;
    names += (names.empty() ? "" : " ") + std::string(ptx::Name(function.body[i].op));
  }
  return names;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

const std::string kLibraryExp = R"(
  mov.f32 %f6, 0f4B400001;
  fma.rm.f32 %f8, %f1, 0f437C0000, %f6;
  add.f32 %f9, %f8, 0fCB40007F;
  neg.f32 %f10, %f9;
  fma.rn.f32 %f12, %f1, 0f3FB8AA3B, %f10;
  mov.b32 %r2, %f8;
  shl.b32 %r3, %r2, 23;
  mov.b32 %f15, %r3;
  ex2.approx.ftz.f32 %f16, %f12;
  mul.f32 %f3, %f16, %f15;
)";

TEST(CancelledRounding, FindsExponentials) {
  EXPECT_EQ(Found(kLibraryExp), "fma add shl");
  EXPECT_EQ(
      Found(Replaced(kLibraryExp, "neg.f32 %f10, %f9;\n  fma.rn.f32 %f12, %f1, 0f3FB8AA3B, %f10;",
                     "sub.f32 %f12, %f1, %f9;")),
      "fma add shl");
  EXPECT_EQ(Found(Replaced(kLibraryExp, "fma.rm.f32 %f8, %f1, 0f437C0000, %f6;",
                           "add.rm.f32 %f8, %f1, 0f4B400001;")),
            "add add shl");
  EXPECT_EQ(Found(Replaced(kLibraryExp, "mul.f32 %f3, %f16, %f15;",
                           "fma.rn.f32 %f3, %f15, %f16, %f1;\n  mul.f32 %f4, %f16, %f15;")),
            "fma add shl");
}

TEST(CancelledRounding, IgnoresOtherUses) {
  const struct {
    const char *from, *to;
  } changes[] = {
      {"mul.f32 %f3, %f16, %f15;", "mul.f32 %f3, %f16, %f16;"},
      {"mul.f32 %f3, %f16, %f15;", "fma.rn.f32 %f3, %f16, %f15, %f16;"},
      {"mul.f32 %f3, %f16, %f15;", "add.f32 %f3, %f16, %f15;"},
      {"mul.f32 %f3, %f16, %f15;", "mul.f32 %f3, %f16, %f15;\n  add.f32 %f3, %f3, %f9;"},
      {"mul.f32 %f3, %f16, %f15;", ""},
      {"neg.f32 %f10, %f9;", "mov.f32 %f10, %f9;"},        // 2^(y + k) * 2^k
      {"shl.b32 %r3, %r2, 23;", "shl.b32 %r3, %r2, 22;"},  // another power
      {"mov.b32 %f15, %r3;", "mov.b32 %f15, %r3;\n  st.shared.b32 [%r1], %r3;"},
      {"0f4B400001", "0f4A800000"},                                 // 2^22: rounds to halves
      {"add.f32 %f9, %f8, 0fCB40007F;", "add.f32 %f9, %f8, %f1;"},  // not k
      {"mov.b32 %r2, %f8;", "@%p1 mov.b32 %r2, %f8;"},
      {"mov.b32 %r2, %f8;", "mov.b32 %r2, %f8;\n  bra next;\nnext:"},
      {"mov.b32 %r2, %f8;", "mov.b32 %r2, %f8;\n  mov.u32 %r2, 5;"},
      {"ex2.approx.ftz.f32 %f16, %f12;", "ex2.approx.ftz.f32 %f16, %f12;\n  mov.f32 %f16, %f1;"},
  };
  for (const auto& change : changes) {
    EXPECT_EQ(Found(Replaced(kLibraryExp, change.from, change.to)), "") << change.to;
  }
}

TEST(CancelledRounding, KeepsTwoExponentialsApart) {
  std::string second = kLibraryExp;
  for (size_t at = 0; (at = second.find("%f", at)) != std::string::npos;) second[at + 1] = 'g';
  for (size_t at = 0; (at = second.find("%r", at)) != std::string::npos;) second[at + 1] = 's';
  EXPECT_EQ(Found(kLibraryExp + second), "fma add shl fma add shl");
  EXPECT_EQ(Found(Replaced(kLibraryExp, "mul.f32 %f3, %f16, %f15;", "") +
                  Replaced(second, "mul.f32 %g3, %g16, %g15;",
                           "mul.f32 %f3, %f16, %g15;\n  mul.f32 %g3, %g16, %f15;")),
            "");
}

}  // namespace
}  // namespace cupel::emu
