// SPDX-License-Identifier: Apache-2.0
#include "base/demangle.h"

#include <gtest/gtest.h>

namespace cupel {
namespace {

TEST(DemangleTest, DemanglesOnlyMangledNames) {
  EXPECT_EQ(Demangle("_Z3fooIfLi4EEvPKT_"), "void foo<float, 4>(float const*)");
  EXPECT_EQ(Demangle("plain"), "plain");
  EXPECT_EQ(Demangle("_Z"), "_Z");
  EXPECT_EQ(Demangle(std::string(1 << 20, '_')).size(), 1u << 20);
}

TEST(DemangleTest, NameThatDoublesItselfStaysShort) {
  // f(A<int, int>, A<S0_, S0_>, A<S1_, S1_>, …): each argument is twice as long as the one before.
  std::string name = "_Z1f1AIiiE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 34; ++i) {
    const std::string previous = std::string("S") + digits[i] + "_";
    name += "S_I" + previous + previous + "E";
  }
  EXPECT_EQ(Demangle(name), name);
}

TEST(BriefName, LeavesOutParametersAndLongTemplateArguments) {
  EXPECT_EQ(BriefName("void foo<float, 4>(float const*)"), "foo<float, 4>");
  EXPECT_EQ(BriefName("foo(int)"), "foo");
  EXPECT_EQ(BriefName("(anonymous namespace)::bar(int)"), "(anonymous namespace)::bar");
  const std::string types(120, 'T');
  EXPECT_EQ(BriefName("void cub::Scan<a::B<" + types + ">, void (*)(int)>::Run<4>(int)"),
            "cub::Scan<...>::Run<...>");
  EXPECT_EQ(BriefName(""), "");
}

}  // namespace
}  // namespace cupel
