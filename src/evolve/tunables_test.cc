// SPDX-License-Identifier: Apache-2.0
#include "evolve/tunables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

using testing::ElementsAre;

std::vector<std::string> Names(std::string_view source) {
  std::vector<std::string> names;
  const auto tunables = FindTunables(source);
  for (const Tunable& tunable : *tunables) names.push_back(tunable.name);
  return names;
}

TEST(FindTunables, FindsConstantsThatTheAuthorMarked) {
  EXPECT_THAT(Names("#define BLOCK 256  // tune: BLOCK in 128, 512\n"
                    "constexpr int kTile = 16;  // tune: kTile in 8, 32\n"
                    "static const unsigned kWide = 4u;  // tune: kWide in 2, 8\n"
                    "void f() { int threads = 128; }  // tune: threads in 64, 256\n"),
              ElementsAre("BLOCK", "kTile", "kWide", "threads"));
}

// They may be part of what the kernel computes: a stride, a size, a padding.
TEST(FindTunables, LeavesOtherConstantsAlone) {
  EXPECT_THAT(Names("#define BLOCK 256\nconstexpr int kTile = 16;\nconstexpr int kStride = 2;\n"
                    "void f() { int threads = 128; dim3 block(16, n); }\n"
                    "__global__ void __launch_bounds__(512, 2) k();\n"),
              ElementsAre());
  const auto tunables = *FindTunables(
      "constexpr int kRows = 3;  // tune: kRows in 1, 2, 6 (rows per block)\n"
      "constexpr int kOther = 16;\n");
  ASSERT_EQ(tunables.size(), 1u);
  EXPECT_EQ(tunables[0].name, "kRows");
  EXPECT_THAT(tunables[0].choices, ElementsAre(1, 2, 3, 6));
}

TEST(FindTunables, NeedsAnIntegerConstant) {
  for (const char* definition :
       {"// constexpr int k = 16;", "const char* s = \"constexpr int k = 8;\";",
        "constexpr float k = 16;", "constexpr int k = 0x10;", "constexpr int k = 16 + 1;",
        "#define k 16 * 2"}) {
    EXPECT_FALSE(FindTunables(std::string(definition) + "\n// tune: k in 1, 2\n")) << definition;
  }
}

TEST(FindTunables, ReportsTheInvalidTuneComment) {
  EXPECT_EQ(FindTunables("\n// tune: kNone in 1, 2\n").error().message,
            "line 2: the tune comment names kNone, but this file has no such integer constant");
  EXPECT_FALSE(FindTunables("constexpr int k = 1;  // tune: k 1 2\n"));
  EXPECT_FALSE(FindTunables("constexpr int k = 1;  // tune: k in 1\n"));
}

TEST(Rewrite, ChangesTheDigitsOnly) {
  const std::string source = "#define A 8\nconstexpr unsigned kB = 16u;  // tune: kB in 8, 32\n";
  const auto tunables = *FindTunables(source);
  EXPECT_EQ(*Rewrite(source, tunables, {{"kB", 32}}),
            "#define A 8\nconstexpr unsigned kB = 32u;  // tune: kB in 8, 32\n");
  EXPECT_EQ(*Rewrite(source, tunables, {}), source);
  EXPECT_FALSE(Rewrite(source, tunables, {{"A", 16}}));
}

}  // namespace
}  // namespace cupel::evolve
