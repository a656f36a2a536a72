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

TEST(ChildEnvironment, ManyChildrenKeepLittleMemory) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_EQ(KeptBytes(1024 * kGiB, 0, 32), 16 * kGiB);
  EXPECT_EQ(KeptBytes(32 * kGiB, 0, 8), 4 * kGiB);
  EXPECT_EQ(KeptBytes(256 * kGiB, 8, 32), 2 * kGiB);  // 16 workers keep a quarter
  EXPECT_EQ(KeptBytes(0, 1, 32), kGiB);               // unknown
}

}  // namespace
}  // namespace cupel::oracle
