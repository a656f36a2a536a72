// SPDX-License-Identifier: Apache-2.0
#include "plan/own_work.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cupel::plan {
namespace {

constexpr int64_t kElements = 8;

View Whole(int buffer) { return {{buffer, 0}, DType::kF32, {kElements}, {1}}; }
View Half(int buffer) { return {{buffer, 0}, DType::kF32, {kElements / 2}, {1}}; }

/// Buffer 0 is the argument and buffer 1 the output.
class OwnWorkTest : public testing::Test {
 protected:
  OwnWorkTest() {
    plan_.buffers.resize(4);
    for (Buffer& buffer : plan_.buffers) buffer.bytes = 4 * kElements;
    plan_.buffers[0].kind = BufferKind::kArgument;
    plan_.outputs = {Whole(1)};
  }
  void Launches(std::vector<int> buffers) {
    Launch launch;
    for (const int buffer : buffers) launch.relocations.push_back({0, {buffer, 0}});
    plan_.nodes.push_back({std::move(launch), {}});
  }
  void Calls(std::vector<int> arguments, View result) {
    Operator work;
    work.name = "aten::relu";
    for (const int buffer : arguments) work.arguments.push_back({Whole(buffer)});
    work.results = {std::move(result)};
    plan_.nodes.push_back({std::move(work), {}});
  }
  bool HasKernel() const { return OwnWorkIn(plan_).kernels; }

  Plan plan_;
};

TEST_F(OwnWorkTest, CountsALaunchThatMayWriteAnOutput) {
  Launches({0, 1});
  EXPECT_TRUE(HasKernel());
}

TEST_F(OwnWorkTest, CountsALaunchWhoseResultAnOperatorUses) {
  Launches({0, 2});
  Calls({2}, Whole(1));
  EXPECT_TRUE(HasKernel());
}

TEST_F(OwnWorkTest, IgnoresALaunchWhoseResultNothingUses) {
  Calls({0}, Whole(1));
  Launches({0, 2});
  EXPECT_FALSE(HasKernel());
}

TEST_F(OwnWorkTest, IgnoresALaunchWhoseResultIsReplaced) {
  Launches({0, 1});
  Calls({0}, Whole(1));
  EXPECT_FALSE(HasKernel());
}

TEST_F(OwnWorkTest, CountsALaunchWhoseResultIsReplacedInPart) {
  Launches({0, 1});
  Calls({0}, Half(1));
  EXPECT_TRUE(HasKernel());
}

TEST_F(OwnWorkTest, FollowsCopies) {
  Launches({0, 2});
  plan_.nodes.push_back({Copy{{3, 0}, {2, 0}, 4 * kElements}, {}});
  plan_.nodes.push_back({CopyView{Whole(1), Whole(3)}, {}});
  EXPECT_TRUE(HasKernel());
}

TEST_F(OwnWorkTest, FollowsAddressesInMemory) {
  Upload upload{{2, 0}, std::string(8, '\0'), {{0, {1, 0}}}, {}};
  plan_.nodes.push_back({std::move(upload), {}});
  Launches({0, 2});
  EXPECT_TRUE(HasKernel());
}

TEST_F(OwnWorkTest, IgnoresPreparedLaunches) {
  Launches({0, 2});
  Calls({2}, Whole(1));
  plan_.prepared = 1;
  EXPECT_FALSE(HasKernel());
}

TEST_F(OwnWorkTest, TellsProductsFromKernels) {
  Gemm gemm;
  gemm.a = {0, 0}, gemm.b = {0, 0}, gemm.c = {1, 0};
  plan_.nodes.push_back({std::move(gemm), {}});
  EXPECT_FALSE(HasKernel());
  EXPECT_TRUE(OwnWorkIn(plan_).products);
}

}  // namespace
}  // namespace cupel::plan
