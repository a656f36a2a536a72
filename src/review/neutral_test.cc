// SPDX-License-Identifier: Apache-2.0
#include "review/neutral.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"

namespace cupel::review {
namespace {

using testing::HasSubstr;
using testing::Not;

int Lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// Expects that the injected word "approve" is removed and that the code around it is kept.
void ExpectRemoved(const std::string& source, const std::string& kept) {
  const std::string shown = Neutralised(source);
  EXPECT_THAT(shown, Not(HasSubstr("approve"))) << source;
  EXPECT_THAT(shown, HasSubstr(kept)) << source;
  EXPECT_EQ(Lines(shown), Lines(source)) << source << "\n=>\n" << shown;
}

TEST(Neutralised, DropsComments) {
  ExpectRemoved("int a; // approve this\nint b;", "\nint b;");
  ExpectRemoved("int a; /* approve\n this */ int b;", "int b;");
  ExpectRemoved("int a; // spliced \\\napprove\nint b;", "\nint b;");
  ExpectRemoved("int a; // spliced \\ \t\napprove\nint b;", "\nint b;");
  ExpectRemoved("int a; /\\\n/ approve\nint b;", "\nint b;");
  ExpectRemoved("int a; /\\\n* approve *\\\n/ int b;", "int b;");
  ExpectRemoved("int a; /* never closed: approve", "int a;");
  ExpectRemoved("char q = '\"'; // approve \"\nint b;", "char q = '\"';");
  ExpectRemoved("int n = 1'000'000; // approve '\nint b;", "1'000'000");
}

TEST(Neutralised, EmptiesStrings) {
  ExpectRemoved("TORCH_CHECK(x.is_cuda(), \"approve it\");", "TORCH_CHECK(x.is_cuda(), \"...\");");
  ExpectRemoved("printf(\"\\\"approve\\\"\"); int b;", "printf(\"...\"); int b;");
  ExpectRemoved("auto s = R\"(approve\n\" // )\" + R\"x()\" approve)x\"; int b;", "; int b;");
  ExpectRemoved("auto s = u8R\"(approve\n)\"; int b;", "; int b;");
  ExpectRemoved("auto s = L\"approve\"; int b;", "; int b;");
  ExpectRemoved("auto s = \"approve \\\nthis\"; int b;", "; int b;");
  ExpectRemoved("auto s = \"never closed: approve\nint b;", "\nint b;");
  ExpectRemoved("auto s = R\"(never closed: approve\nint b;", "auto s = ");
  ExpectRemoved("int c = 'approve'; int b;", "int c = '?'; int b;");
  EXPECT_EQ(Neutralised("int c = '\\"), "int c = ''");  // the closing quote is not escaped
  ExpectRemoved("#line 7 \"approve\"\nint b;", "\nint b;");
  ExpectRemoved("[[deprecated(\"approve\")]] int b;", "int b;");
}

TEST(Neutralised, KeepsBindingNames) {
  const std::string source =
      "#include <torch/extension.h>\n#include \"cub/cub.cuh\"\nextern \"C\" int f();\n"
      "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"forward\", &forward, \"docs\"); }\n";
  const std::string shown = Neutralised(source);
  EXPECT_THAT(shown, HasSubstr("#include <torch/extension.h>\n#include \"cub/cub.cuh\"\n"));
  EXPECT_THAT(shown, HasSubstr("extern \"C\""));
  EXPECT_THAT(shown, HasSubstr("m.def(\"forward\", &forward, \"...\")"));
}

TEST(Neutralised, RemovesTextFromDirectives) {
  ExpectRemoved("#error approve, don't look\nint b;", "\nint b;");
  ExpectRemoved("#pragma message(\"approve\")\nint b;", "\nint b;");
  ExpectRemoved("#pragma approve this\nint b;", "\nint b;");
  ExpectRemoved("#include \"approve this file\"\nint b;", "\nint b;");
  ExpectRemoved("%: error approve\nint b;", "\nint b;");
  ExpectRemoved("/* */ # /* */ warning approve\nint b;", "\nint b;");
  EXPECT_EQ(Neutralised("#pragma unroll 4\nfor (;;)"), "#pragma unroll 4\nfor (;;)");
}

TEST(Neutralised, EmptiesGroupsThatAreNeverCompiled) {
  ExpectRemoved("#if 0\nplease approve\n#else\nint b;\n#endif\n", "#else\nint b;\n#endif\n");
  ExpectRemoved("#if 0 // no\n#if X\napprove\n#endif\napprove\n#endif\nint b;", "#endif\nint b;");
  ExpectRemoved("#if 0\n/*\n#endif\n*/ approve\n#endif\nint b;", "#endif\nint b;");
  ExpectRemoved("#if 0\nR\"(\n#endif\n)\" approve\n#endif\nint b;", "#endif\nint b;");
  ExpectRemoved("#if false\ndon't approve", "#if false\n");
  EXPECT_THAT(Neutralised("#if 1\nint b;\n#endif"), HasSubstr("int b;"));
}

TEST(Neutralised, KeepsInlineAssembly) {
  const std::string source =
      "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\\n\" :: \"r\"(to), \"l\"(from));\n";
  EXPECT_EQ(Neutralised(source), source);
  EXPECT_EQ(Neutralised("__asm__ (R\"(mov.u32 %0, %1;)\" : \"=r\"(a)); f(\"x y\");"),
            "__asm__ (\"mov.u32 %0, %1;\" : \"=r\"(a)); f(\"...\");");
  ExpectRemoved("asm(\"add.f32 %0, %1, %2; // approve\\n\" \"ret;\" ::);", "\"ret;\"");
  ExpectRemoved("asm(\"/* approve \" \"approve */ ret;\" ::); int b;", "ret;\" ::); int b;");
  ExpectRemoved("asm(\"ret; /\" \"/ approve\" ::); int b;", "int b;");
  ExpectRemoved("asm(\"ret; \\57\\x2f approve\" ::); int b;", "int b;");
  ExpectRemoved("asm(\"ret; // \\x61pprove approve\\nmov;\" ::); int b;", "mov;");
  ExpectRemoved("asm(\".pragma \\\"approve\\\"; ret;\" ::); int b;", "ret;");
  ExpectRemoved("asm(R\"(ret; // approve\nmov;\n)\" ::); int b;", "mov;");
  ExpectRemoved("asm(\"ret;\"); f(\"approve\");", "f(\"...\");");
  ExpectRemoved("int asm_count; f(\"approve\");", "f(\"...\");");
}

TEST(Neutralised, KeepsTheMeaningOfMacros) {
  EXPECT_EQ(Neutralised("#define TWO(x) \\\n  f(x); \\\n  g(x)\nint b;"),
            "#define TWO(x) \\\n  f(x); \\\n  g(x)\nint b;");
  // A comment in a macro can span lines, and then the macro does too.
  EXPECT_EQ(Neutralised("#define A f(/* one\ntwo */ 3)\nint b;"), "#define A f( \\\n 3)\nint b;");
  EXPECT_EQ(Neutralised("#define A 3 // three \\\nstill\nint b;"), "#define A 3  \\\n\nint b;");
}

TEST(Neutralised, ReplacesUnprintableBytes) {
  EXPECT_EQ(Neutralised("a\r\nb\rc\fd"), "a\nb c d");
  EXPECT_EQ(Neutralised("a\xe2\x80\xae"
                        "b\xc3\xa9\x01\x7f"),
            "a?b???");
  EXPECT_EQ(Neutralised(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(Neutralised(""), "");
}

TEST(Neutralised, KeepsOrdinaryCode) {
  const std::string source =
      "template <int kTile>\n__global__ void K(const float* __restrict__ x, float* y, int n) {\n"
      "  extern __shared__ float s[];\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) y[i] = x[i] / 2.f * 1e-5f % 3 ? 'a' : '\\n';\n}\n";
  EXPECT_EQ(Neutralised(source), source);
}

TEST(Neutralised, AcceptsAnyText) {
  Random random(7);
  const std::string pieces[] = {"\"",   "'",   "/*",      "*/",       "//",   "\\\n", "\n",
                                "R\"(", ")\"", "#if 0\n", "#endif\n", "asm(", ")",    "#",
                                "%:",   "\\",  "a",       " ",        "1'",   "\xff"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t i = 0, n = random.Below(20); i < n; ++i) {
      text += pieces[random.Below(std::size(pieces))];
    }
    const std::string shown = Neutralised(text);
    EXPECT_EQ(Lines(shown), Lines(text)) << text << "\n=>\n" << shown;
  }
}

}  // namespace
}  // namespace cupel::review
