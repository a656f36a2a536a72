// Printed text parses to an equal module. Tested on nvcc's output (tests/ptx) and on corner cases.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ptx/parser.h"

namespace cupel::ptx {
namespace {

using ::testing::HasSubstr;

/// The same module without line numbers in the PTX text, which printing changes.
Module WithoutTextLines(Module module) {
  for (Function& function : module.functions) {
    function.text_line = 0;
    for (Instr& instr : function.body) instr.text_line = 0;
  }
  return module;
}

/// Parses, prints, and parses again. Returns the printed text.
std::string RoundTrip(const std::string& text) {
  auto first = Parse(text);
  EXPECT_TRUE(first.has_value()) << first.error().ToString();
  if (!first) return {};
  std::string printed = Print(*first);
  auto second = Parse(printed);
  EXPECT_TRUE(second.has_value()) << second.error().ToString() << "\n" << printed;
  if (!second) return {};
  EXPECT_TRUE(WithoutTextLines(*first) == WithoutTextLines(*second)) << printed;
  EXPECT_EQ(Print(*second), printed);
  return printed;
}

TEST(PrinterTest, SamplesOfNvccRoundTrip) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CUPEL_SOURCE_DIR "/tests/ptx")) {
    if (entry.path().extension() != ".ptx") continue;
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(RoundTrip(text.str()).empty());
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(PrinterTest, CornerCasesRoundTrip) {
  const std::string printed = RoundTrip(R"(
.version 8.4
.target sm_80, debug
.address_size 64
.weak .func (.param .b32 r) f (.param .align 2 .b8 a[3], .param .u64 .ptr .shared .align 8 b);
.visible .global .align 1 .u8 q[10] = {7, 0xFF(generic(f)), 0xFF00(generic(f)), 0xFF0000(generic(f)),
  0xFF000000(generic(f)), 0xFF00000000(generic(f)), 0xFF0000000000(generic(f)),
  0xFF000000000000(generic(f)), 0xFF00000000000000(generic(f)), 9};
.extern .shared .align 16 .b8 dyn[];
.const .f64 d = -0.5;
.entry k (.param .u8 p) .reqntid 32 .maxclusterrank 8 .explicitcluster .pragma "x";
{
  .reg .b32 %r<5>, x, %s<0>;
  .reg .pred p;
  .reg .b32 %q7;
  { .reg .b32 %q<9>; .reg .pred %p<3>; mov.b32 %q7, %r4; setp.lt.s32 %p1|_, %q1, -0f3F800000; }
  { .reg .v2 .f32 x; mov.f32 x.y, 0f00000000; st.global.v2.f32 [dyn], x; }
  .pragma "nounroll";
A: B:
  @p bra A;
}
.extern .func v (.param .b64 text, .param .align 8 .b8 arguments[]);
.func (.param .b32 r) g (.param .align 2 .b8 a[3], .param .u64 .ptr .shared .align 8 b) { ret; }
.alias f, g;
)");
  EXPECT_THAT(printed, HasSubstr("0xFF000000(generic(f))"));
  EXPECT_THAT(printed, HasSubstr(".param .u64 .ptr .shared .align 8 b"));
  EXPECT_THAT(printed, HasSubstr(".pragma \"nounroll\";"));
}

TEST(PrinterTest, InstructionAsText) {
  const auto module = Parse(
      ".version 9.0\n.target sm_90\n.entry k() { .reg .pred p; .reg .b64 %rd<3>; .shared .b32 s;\n"
      "@!p st.shared.v2.b32 [s+-4], {1, 2U};\nsetp.eq.s64 p|_, %rd1, -5;\nret; }");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  const Function& k = module->functions[0];
  EXPECT_EQ(Print(k.body[0], k), "@!p st.shared.v2.b32 \t[s+-4], {1, 2U};");
  EXPECT_EQ(Print(k.body[1], k), "setp.eq.s64 \tp|_, %rd1, -5;");
  EXPECT_EQ(Print(k.body[2], k), "ret;");
  EXPECT_THAT(Print(*module), HasSubstr(".reg .b64 \t%rd<3>;"));
}

}  // namespace
}  // namespace cupel::ptx
