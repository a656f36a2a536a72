// SPDX-License-Identifier: Apache-2.0
#include "oracle/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cupel::oracle {
namespace {

TEST(ChildEnvironment, LimitsThreadsUnlessTheUserSetsThem) {
  ::unsetenv("CUPEL_TORCH_THREADS");
  EXPECT_EQ(ChildEnvironment().count("CUPEL_TORCH_THREADS"), 0u);
  EXPECT_EQ(ChildEnvironment(48).at("CUPEL_TORCH_THREADS"), "48");
  EXPECT_EQ(ChildEnvironment(48).at("TORCHINDUCTOR_COMPILE_THREADS"), "32");  // PyTorch's maximum
  ::setenv("CUPEL_TORCH_THREADS", "3", 1);
  EXPECT_EQ(ChildEnvironment(48).at("CUPEL_TORCH_THREADS"), "3");
  ::unsetenv("CUPEL_TORCH_THREADS");
}

}  // namespace
}  // namespace cupel::oracle
