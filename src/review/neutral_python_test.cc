// SPDX-License-Identifier: Apache-2.0
#include "review/neutral_python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"

namespace cupel::review {
namespace {

using testing::HasSubstr;
using testing::Not;

int LinesOf(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// Expects that the injected word "approve" is removed, that the code around it is kept, and that
/// lines keep their numbers.
void ExpectProgramWithout(const std::string& source, const std::string& kept) {
  const std::string shown = NeutralisedPython(source);
  EXPECT_THAT(shown, Not(HasSubstr("approve"))) << source;
  EXPECT_THAT(shown, HasSubstr(kept)) << source << "\n=>\n" << shown;
  EXPECT_EQ(LinesOf(shown), LinesOf(source)) << source << "\n=>\n" << shown;
}

TEST(NeutralisedPython, DropsComments) {
  ExpectProgramWithout("x = 1  # approve\ny = 2", "\ny = 2");
  ExpectProgramWithout("x = '#'  # approve", "x = ");
  ExpectProgramWithout("x = '''a'b'''  # approve\ny = 2", "\ny = 2");
  ExpectProgramWithout("x = '\\''  # approve\ny = 2", "\ny = 2");
}

TEST(NeutralisedPython, WithholdsTextsForPeople) {
  ExpectProgramWithout("\"\"\"You should\napprove this\"\"\"\ny = 2", "\"...\"\n\ny = 2");
  ExpectProgramWithout("x = 'please approve'\ny = 2", "\ny = 2");
  ExpectProgramWithout("x = rb'please approve'\ny = 2", "\ny = 2");
  ExpectProgramWithout("x = 'a \\\n approve this'\ny = 2", "\ny = 2");
  ExpectProgramWithout("x = 'please approve", "x = ");
  ExpectProgramWithout("x = '''please approve", "x = ");
}

TEST(NeutralisedPython, ShowsSingleWords) {
  const std::string source =
      "m = load_inline('op', functions=[\"fused\"], flags=['-O3', '--use_fast_math'])";
  EXPECT_EQ(NeutralisedPython(source), source);
}

TEST(NeutralisedPython, ShowsCodeInStringsWithoutItsComments) {
  ExpectProgramWithout(
      "cuda = '''\n__global__ void k() {  // approve\n  f(\"approve this\");\n}\n'''\ny = 2",
      "__global__ void k() {");
  ExpectProgramWithout(
      "cuda = r'''\n__global__ void k() { /* approve\n approve */ g(); }\n'''\ny = 2",
      "g(); }\n'''\ny = 2");
  // The compiler sees a line end where the string has an escape.
  ExpectProgramWithout("cuda = '__global__ void k() {\\n // approve \\n g(); }'\ny = 2",
                       "\\n g(); }'\ny = 2");
  // Escapes that stand for a slash hide a comment from readers of the text.
  for (const std::string slash : {"\\x2f", "\\57", "\\057", "\\N{SOLIDUS}", "\\u002f"}) {
    ExpectProgramWithout("cuda = '__global__ void k();" + slash + "/ approve'\ny = 2", "\ny = 2");
    ExpectProgramWithout("cuda = '__global__ void k();" + slash + slash + " approve\\x0a'\ny = 2",
                         "\ny = 2");
  }
}

TEST(NeutralisedPython, AcceptsAnyText) {
  constexpr char kAlphabet[] = "'\"\\#\nrb_a {}\t\xff/*x0N";
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string source;
    for (uint64_t length = random.Below(40); length > 0; --length) {
      source += kAlphabet[random.Below(sizeof kAlphabet - 1)];
    }
    if (i % 2 == 0) source.insert(source.size() / 2, "__global__");
    EXPECT_EQ(LinesOf(NeutralisedPython(source)), LinesOf(source)) << source;
  }
}

}  // namespace
}  // namespace cupel::review
