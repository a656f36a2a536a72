// Tests kernels with TMA, mbarriers and wgmma (testdata/hopper.cu): their results, and that each
// bug is found.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "plan/tensor_map.h"

namespace cupel::emu {
namespace {

/// As in hopper.cu.
enum Bug : int {
  kNone,
  kNoFullWait,
  kEarlyRelease,
  kFewBytes,
  kManyBytes,
  kSamePhase,
  kManyArrivals,
  kSkippedProduct,
  kNoProductWait,
  kNoProxyFence,
  kNoEmptyWait,
  kNoProductFence,
  kNoInitSync,
  kNoStoreFence,
  kNoReadWait,
  kNoCommit,
  kOtherDescriptor,
  kCopiedNoFence,
  kCopiedThenStored,
};

using EncodedMap = std::array<std::byte, plan::kTensorMapBytes>;

/// Small whole numbers, so that all sums are exact.
float Element(size_t seed, size_t i) {
  return static_cast<float>(static_cast<int>((i * 2654435761u + seed * 40503u) >> 7 & 7u) - 3);
}

class HopperTest : public testing::TestWithParam<int> {
 protected:
  HopperTest() : emu(TestData("hopper.ptx"), GetParam()) { emu.CheckEverything(); }

  static EncodedMap Map(uint64_t address, plan::TensorMapType type, uint64_t rows, uint64_t columns,
                        uint32_t box_rows, uint32_t box_columns, plan::Swizzle swizzle) {
    plan::TensorMap map;
    map.type = type;
    map.rank = 2;
    map.dims = {columns, rows};
    map.strides = {columns * static_cast<uint64_t>(plan::BitsOf(type)) / 8};
    map.box = {box_columns, box_rows};
    map.element_strides = {1, 1};
    map.swizzle = swizzle;
    EXPECT_EQ(plan::ProblemOf(map), "");
    return plan::EncodeTensorMap(map, address);
  }

  LaunchOutcome Gemm(int bug, size_t k = 512) {
    const size_t m = 128, n = 64;
    std::vector<uint16_t> a(m * k), b(n * k);
    for (size_t i = 0; i < a.size(); ++i) a[i] = FloatToBFloat16(Element(1, i));
    for (size_t i = 0; i < b.size(); ++i) b[i] = FloatToBFloat16(Element(2, i));
    const uint64_t of_a = emu.Buffer(a), of_b = emu.Buffer(b);
    const uint64_t c = emu.Empty<float>(m * n);
    emu.dynamic_shared = 33 * 1024;
    const auto type = plan::TensorMapType::kBF16;
    const LaunchOutcome outcome = emu.Launch("gemm", {1, 2, 1}, {160, 1, 1},
                                             Map(of_a, type, m, k, 64, 64, plan::Swizzle::k128B),
                                             Map(of_b, type, n, k, 64, 64, plan::Swizzle::k128B), c,
                                             static_cast<int>(n), static_cast<int>(k), bug);
    if (bug != kNone) return outcome;
    const std::vector<float> result = emu.Read<float>(c, m * n);
    for (size_t i = 0; i < m * n; ++i) {
      float sum = 0;
      for (size_t j = 0; j < k; ++j) sum += Element(1, i / n * k + j) * Element(2, i % n * k + j);
      if (result[i] != sum) {
        ADD_FAILURE() << "element " << i << " is " << result[i] << " instead of " << sum;
        break;
      }
    }
    return outcome;
  }

  LaunchOutcome Generic(int bug) {
    std::vector<uint16_t> a(64 * 64), b(64 * 64);
    for (size_t i = 0; i < a.size(); ++i) a[i] = FloatToBFloat16(Element(1, i));
    for (size_t i = 0; i < b.size(); ++i) b[i] = FloatToBFloat16(Element(2, i));
    return emu.Launch("generic", {1, 1, 1}, {128, 1, 1}, emu.Buffer(a), emu.Buffer(b),
                      emu.Empty<float>(64 * 64), bug);
  }

  /// 40 rows and 72 columns: the boxes at the edges are partly outside.
  LaunchOutcome Twice(int bug) {
    std::vector<float> in(40 * 72);
    for (size_t i = 0; i < in.size(); ++i) in[i] = Element(3, i);
    const uint64_t to = emu.Empty<float>(in.size());
    const auto type = plan::TensorMapType::kF32;
    const LaunchOutcome outcome =
        emu.Launch("twice", {3, 2, 1}, {64, 1, 1},
                   Map(emu.Buffer(in), type, 40, 72, 32, 32, plan::Swizzle::kNone),
                   Map(to, type, 40, 72, 32, 32, plan::Swizzle::kNone), bug);
    if (bug == kNone) {
      const std::vector<float> result = emu.Read<float>(to, in.size());
      for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(result[i], 4 * in[i]) << i;
    }
    return outcome;
  }

  static void ExpectFound(const LaunchOutcome& outcome, const std::string& code,
                          const std::string& words) {
    ASSERT_FALSE(outcome.findings.empty()) << Summary(outcome);
    EXPECT_FALSE(outcome.completed) << Summary(outcome);
    const auto found = std::find_if(
        outcome.findings.begin(), outcome.findings.end(), [&](const records::Finding& finding) {
          return finding.code == code && finding.severity == records::Severity::kError;
        });
    ASSERT_NE(found, outcome.findings.end()) << Summary(outcome);
    EXPECT_NE(found->message.find(words), std::string::npos) << Summary(outcome);
    EXPECT_GT(found->line, 0);
  }

  Interpreter emu;
};

INSTANTIATE_TEST_SUITE_P(Levels, HopperTest, testing::Values(0, 2));

TEST_P(HopperTest, RightKernelsAreFreeOfFindings) {
  for (const LaunchOutcome& outcome :
       {Gemm(kNone), Gemm(kNone, 64), Generic(kNone), Twice(kNone)}) {
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_EQ(Summary(outcome), "");
  }
}

TEST_P(HopperTest, FindsBuffersThatAreReadOrWrittenTooEarly) {
  ExpectFound(Gemm(kNoFullWait), "shared_race", "");
  ExpectFound(Gemm(kFewBytes), "shared_race", "");
  ExpectFound(Gemm(kEarlyRelease), "shared_race", "");
  ExpectFound(Gemm(kSamePhase), "shared_race", "");
  ExpectFound(Gemm(kNoEmptyWait), "invalid_barrier", "bytes");
  ExpectFound(Twice(kNoReadWait), "shared_race", "");
}

TEST_P(HopperTest, FindsPhasesThatNeverComplete) {
  ExpectFound(Gemm(kManyBytes), "deadlock", "");
  ExpectFound(Gemm(kManyArrivals), "deadlock", "");
}

// CUTLASS and Triton leave out the fence between cp.async and wgmma.
TEST_P(HopperTest, WarnsOfCopiesWithoutProxyFence) {
  const LaunchOutcome copied = Generic(kCopiedNoFence);
  EXPECT_TRUE(copied.completed) << Summary(copied);
  ASSERT_EQ(copied.findings.size(), 1u) << Summary(copied);
  EXPECT_EQ(copied.findings[0].code, "missing_proxy_fence");
  EXPECT_EQ(copied.findings[0].severity, records::Severity::kWarning);
  ExpectFound(Generic(kCopiedThenStored), "missing_proxy_fence", "fence.proxy.async");
}

TEST_P(HopperTest, FindsMissingFencesAndBarriers) {
  ExpectFound(Generic(kNoProxyFence), "missing_proxy_fence", "fence.proxy.async");
  ExpectFound(Twice(kNoStoreFence), "missing_proxy_fence", "fence.proxy.async");
  ExpectFound(Gemm(kNoProductFence), "missing_wgmma_fence", "wgmma.fence");
  ExpectFound(Gemm(kNoInitSync), "shared_race", "mbarrier");
}

/// Sums of one product that `use` reads without a wait.
std::string SumsInUse(const std::string& use) {
  return std::string(R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry sums(.param .u64 out, .param .u32 adds) {
  .reg .pred %adds;
  .reg .b32 %r<20>;
  .reg .b64 %rd<6>;
  .shared .align 1024 .b8 tiles[8192];
  mov.u32 %r1, %tid.x;
  ld.param.u32 %r11, [adds];
  mov.u32 %r2, tiles;
  mad.lo.u32 %r3, %r1, 64, %r2;
  mov.b32 %r4, 0;
  st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
  st.shared.v4.b32 [%r3+16], {%r4, %r4, %r4, %r4};
  st.shared.v4.b32 [%r3+32], {%r4, %r4, %r4, %r4};
  st.shared.v4.b32 [%r3+48], {%r4, %r4, %r4, %r4};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  bfe.u32 %r5, %r2, 4, 14;
  cvt.u64.u32 %rd1, %r5;
  or.b64 %rd1, %rd1, 0x0000000800080000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%r6, %r7, %r8, %r9}, %rd1, %rd1, 0, 1, 1, 0, 0;
)") + use +
         R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %rd2, [out];
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r10;
  ret;
}
)";
}

// tl.dot with max_num_imprecise_acc adds so. ptxas injects the wait (its message C7517).
TEST_P(HopperTest, OnlyAdditionsOfTritonMayReadSumsBeforeTheWait) {
  const auto launch = [](const char* use, bool is_of_triton) {
    Interpreter own(SumsInUse(use), GetParam(), is_of_triton);
    own.CheckEverything();
    return own.Launch("sums", {1}, {128}, own.Empty<int>(128), 0);
  };
  const auto finds = [](const LaunchOutcome& outcome, records::Severity severity) {
    return std::ranges::any_of(outcome.findings, [&](const records::Finding& finding) {
      return finding.code == "missing_wgmma_wait" && finding.severity == severity;
    });
  };
  constexpr const char* kAdd = "add.rn.f16x2 %r10, %r6, %r7;";
  constexpr const char* kXor = "xor.b32 %r10, %r6, %r7;";
  constexpr const char* kOfSums =
      "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%r10, %r11, %r12, %r13}, "
      "{%r6, %r7, %r8, %r9}, %rd1, 0, 1, 1, 0;";
  const LaunchOutcome sum = launch(kAdd, true);
  EXPECT_TRUE(sum.completed && finds(sum, records::Severity::kWarning)) << Summary(sum);
  for (const auto& [use, is_of_triton] :
       {std::pair(kAdd, false), std::pair(kXor, true), std::pair(kOfSums, true)}) {
    const LaunchOutcome outcome = launch(use, is_of_triton);
    EXPECT_FALSE(outcome.completed) << use << Summary(outcome);
    EXPECT_TRUE(finds(outcome, records::Severity::kError)) << use << Summary(outcome);
  }
}

// A loop's first product often gets sums that have no value, with scale-d false.
TEST_P(HopperTest, SumsNeedAValueOnlyIfTheProductAddsToThem) {
  const auto warns = [](const std::string& scale, int adds) {
    Interpreter own(SumsInUse("setp.ne.b32 %adds, %r11, 0;\n"
                              "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 "
                              "{%r10, %r12, %r13, %r14}, %rd1, %rd1, " +
                              scale + ", 1, 1, 0, 0;"),
                    GetParam());
    own.CheckEverything();
    const LaunchOutcome outcome = own.Launch("sums", {1}, {128}, own.Empty<int>(128), adds);
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    return std::ranges::any_of(outcome.findings, [](const records::Finding& finding) {
      return finding.code == "uninitialized_register";
    });
  };
  EXPECT_FALSE(warns("%adds", 0));
  EXPECT_TRUE(warns("%adds", 1));
  EXPECT_FALSE(warns("0", 1));
  EXPECT_TRUE(warns("1", 0));
}

TEST_P(HopperTest, FindsMisuseOfProducts) {
  ExpectFound(Gemm(kNoProductWait), "missing_wgmma_wait", "wgmma.wait_group");
  ExpectFound(Gemm(kNoCommit), "missing_wgmma_wait", "wgmma.wait_group");
  ExpectFound(Gemm(kSkippedProduct), "warpgroup_divergence", "four warps");
  ExpectFound(Gemm(kOtherDescriptor), "warpgroup_divergence", "descriptors");
}

}  // namespace
}  // namespace cupel::emu
