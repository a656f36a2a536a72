// Tests kernels with tcgen05 and tensor memory (testdata/blackwell.cu): their results, and the bugs
// that must be found.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "plan/tensor_map.h"

namespace cupel::emu::blackwell {
namespace {

/// As in blackwell.cu.
enum Bug : int {
  kNone,
  kNoCommitWait,
  kNoFence,
  kEarlyRelease,
  kNoProxyFence,
  kNoFree,
  kFreeTooEarly,
  kTooFewColumns,
  kOtherQuarter,
  kAlwaysAccumulates,
  kNoStoreWait,
  kNoLoadWait,
  kAllocatesTwice,
  kNoVersion,
  kBadShape,
  kOtherThread,
  kFreesOther,
  kLateAllocation,
};

using EncodedMap = std::array<std::byte, plan::kTensorMapBytes>;

/// Small whole numbers, so that all sums are exact.
float Element(size_t seed, size_t i) {
  return static_cast<float>(static_cast<int>((i * 2654435761u + seed * 40503u) >> 7 & 7u) - 3);
}
std::vector<uint16_t> Elements(size_t seed, size_t count) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = FloatToBFloat16(Element(seed, i));
  return values;
}

class BlackwellTest : public testing::TestWithParam<int> {
 protected:
  BlackwellTest() : emu(TestData("blackwell.ptx"), GetParam()) { emu.CheckEverything(); }

  static EncodedMap Map(uint64_t address, uint64_t rows, uint64_t columns, uint32_t box_rows) {
    plan::TensorMap map;
    map.type = plan::TensorMapType::kBF16;
    map.rank = 2;
    map.dims = {columns, rows};
    map.strides = {columns * 2};
    map.box = {64, box_rows};
    map.element_strides = {1, 1};
    map.swizzle = plan::Swizzle::k128B;
    EXPECT_EQ(plan::ProblemOf(map), "");
    return plan::EncodeTensorMap(map, address);
  }

  LaunchOutcome Gemm(int bug) {
    const size_t m = 128, n = 256, k = 320;
    const uint64_t of_a = emu.Buffer(Elements(1, m * k)), of_b = emu.Buffer(Elements(2, n * k));
    const uint64_t c = emu.Empty<float>(m * n);
    emu.dynamic_shared = 50 * 1024;
    const LaunchOutcome outcome =
        emu.Launch("gemm", {2, 1, 1}, {192, 1, 1}, Map(of_a, m, k, 128), Map(of_b, n, k, 64), c,
                   static_cast<int>(n), static_cast<int>(k), 2, bug);
    if (bug == kNone) Compare(c, m, n, k);
    return outcome;
  }

  LaunchOutcome Weights(int bug) {
    const size_t m = 128, n = 64, k = 16;
    const uint64_t of_a = emu.Buffer(Elements(1, m * k)), of_b = emu.Buffer(Elements(2, n * k));
    const uint64_t c = emu.Empty<float>(m * n);
    const LaunchOutcome outcome = emu.Launch("weights", {1, 1, 1}, {128, 1, 1}, of_a, of_b, c, bug);
    if (bug == kNone) Compare(c, m, n, k);
    return outcome;
  }

  LaunchOutcome Pair(int bug) {
    const size_t m = 256, n = 64, k = 320;
    const uint64_t of_a = emu.Buffer(Elements(1, m * k)), of_b = emu.Buffer(Elements(2, n * k));
    const uint64_t c = emu.Empty<float>(m * n);
    emu.dynamic_shared = 50 * 1024;
    const LaunchOutcome outcome = emu.Launch("pair", {2, 1, 1}, {192, 1, 1}, Map(of_a, m, k, 128),
                                             Map(of_b, n, k, 32), c, static_cast<int>(k), bug);
    if (bug == kNone) Compare(c, m, n, k);
    return outcome;
  }

  void Compare(uint64_t c, size_t m, size_t n, size_t k) {
    const std::vector<float> result = emu.Read<float>(c, m * n);
    for (size_t i = 0; i < m * n; ++i) {
      float sum = 0;
      for (size_t x = 0; x < k; ++x) {
        sum += Element(1, i / n * k + x) * Element(2, i % n * k + x);
      }
      ASSERT_EQ(result[i], sum) << i;
    }
  }

  static bool Has(const LaunchOutcome& outcome, const std::string& code, const std::string& text) {
    return std::any_of(outcome.findings.begin(), outcome.findings.end(), [&](const auto& finding) {
      return finding.code == code && finding.message.find(text) != std::string::npos &&
             finding.line > 0;
    });
  }

  Interpreter emu;
};

TEST_P(BlackwellTest, MultipliesWithCopiesAndTensorMemory) {
  const LaunchOutcome outcome = Gemm(kNone);
  EXPECT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
}

TEST_P(BlackwellTest, MultipliesLeftMatrixInTensorMemory) {
  const LaunchOutcome outcome = Weights(kNone);
  EXPECT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
}

TEST_P(BlackwellTest, CorrectKernelsHaveNoFindingsInAnyOrder) {
  for (uint64_t schedule = 1; schedule <= 6; ++schedule) {
    emu.options.schedule = schedule;
    EXPECT_EQ(Summary(Gemm(kNone)), "") << schedule;
    EXPECT_EQ(Summary(Weights(kNone)), "") << schedule;
    EXPECT_EQ(Summary(Pair(kNone)), "") << schedule;
  }
}

TEST_P(BlackwellTest, CommitsReleaseBuffersOfBothBlocks) {
  const LaunchOutcome outcome = Pair(kNone);
  EXPECT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
}

TEST_P(BlackwellTest, FindsCommitThatForgetsTheOtherBlock) {
  bool is_found = false;
  for (uint64_t schedule = 0; schedule < 4; ++schedule) {
    emu.options.schedule = schedule;
    is_found |= Has(Pair(kEarlyRelease), "shared_race", "block");
  }
  EXPECT_TRUE(is_found);
}

struct Case {
  int bug;
  const char* code;
  const char* text;
};

TEST_P(BlackwellTest, FindsBugsInPipelines) {
  const Case cases[] = {
      {kNoCommitWait, "missing_tensor_wait", "nothing orders"},
      {kNoFence, "missing_tensor_fence", "fence::after_thread_sync"},
      {kEarlyRelease, "shared_race", "still reads it"},
      {kNoFree, "tensor_allocation", "tcgen05.dealloc"},
      {kFreeTooEarly, "out_of_bounds", "is not allocated"},
      {kTooFewColumns, "out_of_bounds", "is not allocated"},
      {kOtherQuarter, "out_of_bounds", "only lanes"},
      {kAlwaysAccumulates, "uninitialized_tensor", "nothing has written"},
      {kNoLoadWait, "missing_tensor_wait", "tcgen05.wait::ld"},
      {kAllocatesTwice, "deadlock", "tensor memory"},
      {kNoVersion, "illegal_instruction", "0b001"},
      {kBadShape, "illegal_instruction", "N = 56"},
      {kOtherThread, "missing_tensor_wait", "tcgen05.commit that follows"},
      {kFreesOther, "tensor_allocation", "frees 32 columns"},
      {kLateAllocation, "tensor_allocation", "relinquish"},
  };
  for (const Case& one : cases) {
    const LaunchOutcome outcome = Gemm(one.bug);
    EXPECT_TRUE(Has(outcome, one.code, one.text)) << one.bug << " " << Summary(outcome);
  }
}

TEST_P(BlackwellTest, FindsBugsWithTensorOperands) {
  const Case cases[] = {
      {kNoProxyFence, "missing_proxy_fence", "fence.proxy.async"},
      {kNoStoreWait, "missing_tensor_wait", "tcgen05.wait::st"},
  };
  for (const Case& one : cases) {
    const LaunchOutcome outcome = Weights(one.bug);
    EXPECT_TRUE(Has(outcome, one.code, one.text)) << one.bug << " " << Summary(outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(VectorLevels, BlackwellTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace cupel::emu::blackwell
