// SPDX-License-Identifier: Apache-2.0
#include "build/half_hint.h"

#include <gtest/gtest.h>

#include "build/diagnostics.h"

namespace cupel::build {
namespace {

/// The flags that the hint names for an error of nvcc.
std::string FlagsFor(const std::string& error, const std::vector<std::string>& flags = {}) {
  const auto diagnostics = ParseDiagnostics("kernel.cu(6): error: " + error + "\n", "/w");
  const std::string hint = HalfHint(diagnostics, flags);
  const size_t with = hint.rfind(", with ");
  return with == std::string::npos ? hint : hint.substr(with + 7);
}

TEST(HalfHint, NamesTheFlagThatAllowsAnOperatorOrConversion) {
  const std::string operators = "--flag=-U__CUDA_NO_HALF_OPERATORS__";
  const std::string conversions = "--flag=-U__CUDA_NO_HALF_CONVERSIONS__";
  const std::string lead = "no operator \"*\" matches these operands\n  operand types are: ";
  EXPECT_EQ(FlagsFor(lead + "const __half * const __half"), operators);
  EXPECT_EQ(FlagsFor(lead + "- const __half"), operators);
  EXPECT_EQ(FlagsFor(lead + "__half2 * __half2"), "--flag=-U__CUDA_NO_HALF2_OPERATORS__");
  EXPECT_EQ(FlagsFor(lead + "__half * float"), conversions);
  EXPECT_EQ(FlagsFor("no suitable conversion function from \"const __half\" to \"float\" exists"),
            conversions);
  EXPECT_EQ(FlagsFor("no instance of constructor \"__half::__half\" matches the argument list\n"
                     "            argument types are: (float)"),
            conversions);
  EXPECT_EQ(FlagsFor(lead + "__nv_bfloat16 = float"), "--flag=-U__CUDA_NO_BFLOAT16_CONVERSIONS__");
}

TEST(HalfHint, SaysNothingAboutOtherErrors) {
  const std::string lead = "no operator \"*\" matches these operands\n  operand types are: ";
  EXPECT_EQ(FlagsFor(lead + "float4 * float"), "");
  EXPECT_EQ(FlagsFor(lead + "__half * __nv_bfloat16"), "");
  EXPECT_EQ(FlagsFor(lead + "Point + __half"), "") << "no flag helps";
  EXPECT_EQ(FlagsFor(lead + "__nv_bfloat16 * __nv_bfloat16"), "") << "PyTorch has these";
  EXPECT_EQ(FlagsFor("identifier \"__half\" is undefined"), "");
  EXPECT_EQ(FlagsFor(lead + "__half * __half", {"-U__CUDA_NO_HALF_OPERATORS__"}), "");
}

}  // namespace
}  // namespace cupel::build
