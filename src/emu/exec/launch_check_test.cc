// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/launch_check.h"

#include <gtest/gtest.h>

namespace cupel::emu {
namespace {

class CheckLaunchTest : public ::testing::Test {
 protected:
  CheckLaunchTest() {
    launch_.kernel = "k";
    launch_.grid = {4, 1, 1};
    launch_.block = {128, 1, 1};
    kernel_.demangled = "k()";
    kernel_.registers = 32;
    kernel_.function = &function_;
  }
  /// Empty when the launch is legal.
  std::string Message() {
    const auto finding = CheckLaunch(launch_, kernel_, device_);
    if (!finding) return "";
    EXPECT_EQ(finding->code, "illegal_launch");
    EXPECT_EQ(finding->kernel, "k()");
    return finding->message;
  }
  void ExpectRefused(const std::string& error, const std::string& part) {
    const std::string message = Message();
    EXPECT_EQ(message.find(error + ": "), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  device::Description device_ = *device::Find("h100");
  ptx::Function function_;
  KernelLimits kernel_;
  plan::Launch launch_;
};

TEST_F(CheckLaunchTest, LegalLaunchesPass) {
  EXPECT_EQ(Message(), "");
  launch_.grid = {0x7fffffff, 65535, 65535};
  launch_.block = {32, 1, 32};
  launch_.dynamic_shared = 232448;
  EXPECT_EQ(Message(), "");
}

TEST_F(CheckLaunchTest, RejectsInvalidGridsAndBlocks) {
  launch_.block = {1025, 1, 1};
  ExpectRefused("cudaErrorInvalidValue", "1024x1024x64");
  launch_.block = {64, 32, 1};
  ExpectRefused("cudaErrorInvalidValue", "2048 threads, more than the limit of 1024");
  launch_.block = {1, 1, 65};
  ExpectRefused("cudaErrorInvalidValue", "1x1x65");
  launch_.block = {32, 0, 1};
  ExpectRefused("cudaErrorInvalidValue", "empty dimension");
  launch_.block = {0xffffffff, 0xffffffff, 0xffffffff};
  ExpectRefused("cudaErrorInvalidValue", "exceeds the limit");
  launch_.block = {32, 1, 1};
  launch_.grid = {0, 1, 1};
  ExpectRefused("cudaErrorInvalidValue", "the grid 0x1x1 has an empty dimension");
  launch_.grid = {1, 65536, 1};
  ExpectRefused("cudaErrorInvalidValue", "2147483647x65535x65535");
}

TEST_F(CheckLaunchTest, LimitsSharedMemoryAndRegisters) {
  launch_.dynamic_shared = 232449;
  ExpectRefused("cudaErrorInvalidValue", "limit of 232448 bytes");
  launch_.dynamic_shared = 230000;
  kernel_.static_shared = 4096;
  ExpectRefused("cudaErrorInvalidValue", "(4096 static, 230000 dynamic)");
  launch_.dynamic_shared = 0;
  kernel_.registers = 255;
  launch_.block = {1024, 1, 1};
  ExpectRefused("cudaErrorLaunchOutOfResources", "1024 threads with 255 registers");
  kernel_.registers = 0;  // unknown, so not checked
  EXPECT_EQ(Message(), "");
}

TEST_F(CheckLaunchTest, EnforcesLaunchBounds) {
  function_.max_ntid = {64};
  ExpectRefused("cudaErrorInvalidValue", "launch bounds allow 64");
  launch_.block = {64, 1, 1};
  EXPECT_EQ(Message(), "");
  function_.req_ntid = {32, 2, 1};
  ExpectRefused("cudaErrorInvalidValue", "the kernel requires 32x2x1");
  launch_.block = {32, 2, 1};
  EXPECT_EQ(Message(), "");
}

TEST_F(CheckLaunchTest, LimitsClustersAndCooperativeGrids) {
  launch_.cluster = {3, 1, 1};
  ExpectRefused("cudaErrorInvalidClusterSize", "not a multiple of the cluster 3x1x1");
  launch_.cluster = {32, 1, 1};
  ExpectRefused("cudaErrorInvalidClusterSize", "limit 16");
  launch_.cluster = {2, 1, 1};
  EXPECT_EQ(Message(), "");
  kernel_.cluster = {4, 1, 1};
  ExpectRefused("cudaErrorInvalidClusterSize", "the kernel requires 4x1x1");
  launch_.cluster = {};
  EXPECT_EQ(Message(), "");
  launch_.grid.x = 6;
  ExpectRefused("cudaErrorInvalidClusterSize", "not a multiple of the cluster 4x1x1");
  kernel_.cluster = {0, 0, 0};
  launch_.cluster = {16, 1, 1};
  launch_.grid.x = 16;
  device_.sm_count = 8;
  launch_.dynamic_shared = 200 << 10;
  ExpectRefused("cudaErrorInvalidClusterSize", "exceed the 8 blocks");
  launch_.dynamic_shared = 0;
  launch_.grid.x = 4;
  launch_.cluster = {2, 1, 1};
  device_ = *device::Find("a100");
  ExpectRefused("cudaErrorInvalidClusterSize", "A100");
  launch_.cluster = {1, 1, 1};
  launch_.cooperative = true;
  launch_.grid = {108 * 16, 1, 1};  // 16 blocks of 128 threads fill 2048
  EXPECT_EQ(Message(), "");
  launch_.grid.x += 1;
  ExpectRefused("cudaErrorCooperativeLaunchTooLarge", "16 on each of 108 SMs");
}

TEST_F(CheckLaunchTest, RejectsWrongParameterSize) {
  kernel_.param_bytes = 24;
  launch_.parameters = std::string(16, '\0');
  ExpectRefused("cudaErrorInvalidValue", "16 bytes of parameters were passed, the kernel takes 24");
}

}  // namespace
}  // namespace cupel::emu
