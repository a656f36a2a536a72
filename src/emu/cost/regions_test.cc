// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/regions.h"

#include <gtest/gtest.h>

#include <string>

#include "ptx/parser.h"

namespace cupel::emu {
namespace {

std::vector<Region> Regions(const std::string& body) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 s[64];\n"
      ".visible .entry k() {\n.reg .f32 %f<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
      ".reg .pred %p<4>;\n" +
      body + "\n}\n");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message);
  return module ? RegionsOf(module->functions.at(0)) : std::vector<Region>{};
}

std::string Guarded(const std::string& predicate, const std::string& label,
                    const std::string& body) {
  return "@" + predicate + " bra " + label + ";\n" + body + "\n" + label + ":\n";
}

const std::string kLoad1 = "ld.global.f32 %f1, [%rd1];\nadd.f32 %f4, %f4, %f1;";
const std::string kLoad2 = "ld.global.f32 %f2, [%rd1+4];\nadd.f32 %f4, %f4, %f2;";
const std::string kStoreSum = "st.global.f32 [%rd2], %f4;\nret;";

TEST(Regions, IndependentLoadsOverlap) {
  const auto regions = Regions(
      "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nadd.f32 %f4, %f1, %f2;\nret;");
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 1u);
  EXPECT_EQ(regions[0].loads.size(), 2u);
  EXPECT_EQ(regions[0].chain.clocks, 5u);
}

TEST(Regions, GuardedLoadsOverlap) {
  const auto regions =
      Regions(Guarded("%p1", "A", kLoad1) + Guarded("%p2", "B", kLoad2) + kStoreSum);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 1u);
  EXPECT_EQ(regions[0].loads.size(), 2u);
}

TEST(Regions, BothSidesOfAnElseOverlap) {
  const auto regions = Regions("@%p1 bra E;\n" + kLoad1 + "\nbra J;\nE:\n" + kLoad2 + "\nJ:\n" +
                               "mul.f32 %f4, %f4, %f4;\n" + kStoreSum);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 1u);
}

TEST(Regions, SeveralConditionsGuardTogether) {
  const auto regions =
      Regions("@%p1 bra A;\n@%p2 bra A;\n" + kLoad1 + "\nA:\n" + kLoad2 + "\n" + kStoreSum);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 1u);
}

TEST(Regions, ALoadWaitsForTheLoadThatGuardsIt) {
  const auto regions = Regions("ld.global.f32 %f3, [%rd3];\nsetp.gt.f32 %p1, %f3, %f5;\n" +
                               Guarded("%p1", "A", kLoad1) + kStoreSum);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 2u);
}

TEST(Regions, ALoadWaitsForAnAddressFromAGuardedBlock) {
  const auto regions = Regions(Guarded("%p1", "A", "ld.global.u64 %rd1, [%rd3];") +
                               Guarded("%p2", "B", kLoad2) + kStoreSum);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].chain.loads, 2u);
}

TEST(Regions, LongBlocksBarriersAndLoopsAreNotPredicated) {
  std::string many;
  for (int i = 0; i < 25; ++i) many += "fma.rn.f32 %f5, %f5, %f5, %f5;\n";
  for (const std::string& body :
       {many, std::string("bar.sync 0;"), std::string("div.s32 %r1, %r2, %r3;"),
        std::string("atom.global.add.u32 %r1, [%rd5], 1;"),
        std::string("L:\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p3, %r1, %r2;\n@%p3 bra L;")}) {
    EXPECT_GT(Regions(Guarded("%p1", "A", body) + kLoad1 + kStoreSum).size(), 1u) << body;
  }
}

TEST(Regions, APlainLoadDoesNotPassAStore) {
  const std::string store = "st.global.f32 [%rd2], %f1;\n";
  EXPECT_EQ(Regions(kLoad1 + store + kLoad2 + "ret;")[0].chain.loads, 2u);
  EXPECT_EQ(Regions("ld.global.nc.f32 %f1, [%rd1];\n" + store +
                    "ld.global.nc.f32 %f2, [%rd1+4];\nadd.f32 %f4, %f1, %f2;\nret;")[0]
                .chain.loads,
            1u);
  // ptxas keeps the second branch.
  EXPECT_EQ(
      Regions(Guarded("%p1", "A", kLoad1 + store) + Guarded("%p2", "B", kLoad2) + kStoreSum).size(),
      3u);
}

TEST(Regions, TheLastGuardedBlockOfAKernelIsABranch) {
  EXPECT_EQ(Regions(kLoad1 + Guarded("%p1", "A", kLoad2) + "ret;").size(), 3u);
}

TEST(Regions, ShortLoopsThatCountAreUnrolled) {
  const auto loop = [](const std::string& pragma, const std::string& body) {
    return Regions("add.s32 %r1, %r2, 0;\nL:\n" + pragma + body +
                   "\nadd.s64 %rd1, %rd1, 1024;\nadd.s32 %r1, %r1, 1;\n"
                   "setp.lt.s32 %p1, %r1, %r3;\n@%p1 bra L;\n" +
                   kStoreSum)
        .at(1);
  };
  const Region counted = loop("", kLoad1);
  EXPECT_EQ(counted.chain.loads, 1u);
  EXPECT_EQ(counted.unrolled.loads, 1u);
  EXPECT_GE(counted.unrolled.clocks, kUnrolled * 4);
  const Region chased = loop("", "ld.global.u64 %rd1, [%rd1];");
  EXPECT_EQ(chased.unrolled.loads, kUnrolled);
  EXPECT_EQ(loop(".pragma \"nounroll\";\n", kLoad1).unrolled.end, 0u);
  EXPECT_EQ(loop("", kLoad1 + "\nbar.sync 0;").unrolled.end, 0u);
  EXPECT_EQ(loop("", "ld.global.u32 %r3, [%rd1];").unrolled.end, 0u) << "ends at a loaded number";
  EXPECT_EQ(loop("", "add.s32 %r3, %r3, %r4;").unrolled.end, 0u) << "the end moves";
}

TEST(Regions, NeighbouringStoresAreMerged) {
  const std::string store = "st.global.f32 [%rd2";
  const auto merged = [&](const std::string& body) {
    return Regions(body + "ret;").at(0).merged_stores;
  };
  EXPECT_EQ(merged(store + "], %f1;\n" + store + "+4], %f2;\n" + store + "+8], %f3;\n"),
            (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(merged(store + "], %f1;\n" + store + "+8], %f2;\n"), std::vector<uint32_t>{});
  EXPECT_EQ(merged("st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};\n" + store + "+16], %f2;\n" +
                   "st.global.f32 [%rd3+20], %f2;\n"),
            std::vector<uint32_t>{1});
  EXPECT_EQ(merged("st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};\n"
                   "st.global.v4.f32 [%rd2+16], {%f1, %f2, %f3, %f4};\n" +
                   store + "+32], %f2;\n"),
            std::vector<uint32_t>{1})
      << "32 bytes at most";
}

TEST(Regions, CoverEachInstructionOnce) {
  const auto regions = Regions(Guarded("%p1", "A", kLoad1) + "bar.sync 0;\n" +
                               Guarded("%p2", "B", "bar.sync 0;") + kStoreSum);
  uint32_t end = 0;
  for (const Region& region : regions) {
    EXPECT_EQ(region.chain.begin, end);
    EXPECT_GT(region.chain.end, end);
    end = region.chain.end;
  }
}

}  // namespace
}  // namespace cupel::emu
