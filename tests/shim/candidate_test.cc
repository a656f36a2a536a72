// Loads and calls candidates built by nvcc, header-only and linked with the compiled runtime.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_recorder.h"

namespace {

using fake::Of;
using testing::ElementsAre;

fake::Call Load(const std::string& name) {
  std::string path = std::string(CUPEL_TEST_OBJECTS "/") + name + ".so";
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(object, nullptr) << dlerror();
  return object ? reinterpret_cast<fake::Call>(dlsym(object, "cupel_candidate_call")) : nullptr;
}

class Candidate : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Builds, Candidate, testing::Values("whole", "linked"));

TEST_P(Candidate, RunsAndLaunches) {
  fake::Call call = Load(GetParam());
  ASSERT_NE(call, nullptr);
  fake::Log().clear();
  CupelTensor x = fake::Argument({8, 16});
  EXPECT_EQ(fake::Run(call, "forward", {Of(x)}).result, "f32[8,16]");
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 512", "launch 8x128", "free"));
  fake::Log().clear();
  EXPECT_EQ(fake::Run(call, "mixed", {Of(x)}).result, "(f32[8], f16[8,16])");
  EXPECT_THAT(fake::Log(),
              ElementsAre("alloc 32", "fill f32[8] 00000000", "launch 1x8", "alloc 256",
                          "copy f16[8,16] <- f32[8,16]", "launch 1x1", "free", "free"));
}

TEST_P(Candidate, ReportsFailedChecks) {
  fake::Call call = Load(GetParam());
  ASSERT_NE(call, nullptr);
  CupelTensor x = fake::Argument({8, 16}, /*dtype=*/3);
  fake::Answer answer = fake::Run(call, "forward", {Of(x)});
  EXPECT_EQ(answer.status, CUPEL_EXCEPTION);
  EXPECT_EQ(answer.message, "\"row_norm\" not implemented for 'Int'");
  x = fake::Argument({8, 16});
  x.strides[0] = 1;
  EXPECT_EQ(fake::Run(call, "forward", {Of(x)}).message, "x must be contiguous");
}

TEST(Lean, CandidateRunsWithReducedHeaders) {
  fake::Call call = Load("lean");
  ASSERT_NE(call, nullptr);
  CupelTensor a = fake::Argument({3});
  CupelTensor b = fake::Argument({4});
  EXPECT_EQ(fake::Run(call, "forward", {Of(a), Of(a)}).result, "(f32[3])");
  EXPECT_EQ(fake::Run(call, "forward", {Of(a), Of(b)}).message, "shapes differ: [3] and [4]");
}

}  // namespace
