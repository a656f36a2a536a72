// SPDX-License-Identifier: Apache-2.0
#include "gpu/surroundings.h"

#include <gtest/gtest.h>

#include <set>

#include "ptx/parser.h"

namespace cupel::gpu {
namespace {

std::string Kernel(const std::string& body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 y) {\n"
         ".reg .pred %p; .reg .b64 %d<3>; .reg .b32 %r<3>;\n" +
         body + "ret;\n}\n";
}

/// Counts the remaining reads of `what`. Each must be one of ours, with the destination `target`.
size_t CountReads(const std::string& ptx, const std::string& what, const std::string& target) {
  size_t reads = 0;
  for (size_t at = ptx.find(what); at != std::string::npos; ++reads) {
    EXPECT_EQ(ptx.substr(at - target.size() - 2, target.size() + 2), target + ", ");
    at = ptx.find(what, at + 1);
  }
  return reads;
}

TEST(Surroundings, DetectsReadsOfTheDateAndMultiprocessor) {
  EXPECT_TRUE(ReadsSurroundings(Kernel("mov.u64 %d1, %globaltimer;\n")));
  EXPECT_TRUE(ReadsSurroundings(Kernel("mov.u32 %r1, %globaltimer_lo;\n")));
  EXPECT_TRUE(ReadsSurroundings(Kernel("mov.u32 %r1, %smid;\n")));
  EXPECT_FALSE(ReadsSurroundings(Kernel("mov.u64 %d1, %clock64;\n")));
  EXPECT_FALSE(ReadsSurroundings(Kernel("mov.u32 %r1, %nsmid;\n")));
}

TEST(Surroundings, EveryReadOfTheDateIsShifted) {
  const std::string ptx = Kernel(
      ".loc 1 2 3\n// begin inline asm\n@%p mov.u64 %d1, %globaltimer;\n// end inline asm\n"
      "L: mov.u32 %r1, %globaltimer_hi;\nmov.u32 %r2, %globaltimer_lo;\n");
  const std::string shifted = WithOtherSurroundings(ptx);
  const auto module = ptx::Parse(shifted);
  ASSERT_TRUE(module.has_value()) << module.error().message << "\n" << shifted;
  EXPECT_NE(shifted.find("@%p mov.u64 %d1, cupel_now;"), std::string::npos) << shifted;
  EXPECT_NE(shifted.find("mov.u32 %r1, cupel_hi;"), std::string::npos) << shifted;
  EXPECT_NE(shifted.find("mov.u32 %r2, cupel_lo;"), std::string::npos) << shifted;
  EXPECT_EQ(CountReads(shifted, "%globaltimer", "cupel_now"), 3u);
}

TEST(Surroundings, EveryReadOfTheMultiprocessorIsRotated) {
  const std::string ptx = Kernel(
      "mov.u32 %r1, %smid;\n@%p mov.u32 %r2, %smid;\nmov.u64 %d1, %globaltimer;\n"
      "mov.u32 %r1, %nsmid;\n");
  const std::string rotated = WithOtherSurroundings(ptx);
  const auto module = ptx::Parse(rotated);
  ASSERT_TRUE(module.has_value()) << module.error().message << "\n" << rotated;
  EXPECT_NE(rotated.find("mov.u32 %r1, cupel_at;"), std::string::npos) << rotated;
  EXPECT_NE(rotated.find("@%p mov.u32 %r2, cupel_at;"), std::string::npos) << rotated;
  EXPECT_NE(rotated.find("mov.u64 %d1, cupel_now;"), std::string::npos) << rotated;
  EXPECT_NE(rotated.find("mov.u32 %r1, %nsmid;"), std::string::npos) << rotated;
  EXPECT_EQ(CountReads(rotated, "%smid", "cupel_at"), 2u);
}

TEST(Surroundings, OtherCodeStaysUnchanged) {
  const std::string body = "mov.u64 %d1, %clock64;\n";
  EXPECT_NE(WithOtherSurroundings(Kernel(body)).find(body), std::string::npos);
}

TEST(Surroundings, DatesSpanDecadesAndMultiprocessorsRotate) {
  constexpr double kYear = 365.25 * 86400e9;
  std::set<bool> is_later;
  std::set<uint64_t> processors;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto shift = static_cast<double>(DrawSurroundings(seed).date_shift);
    EXPECT_GE(shift, -30 * kYear);
    EXPECT_LE(shift, 60 * kYear);
    is_later.insert(shift > 10 * kYear);
    processors.insert(DrawSurroundings(seed).processor_shift % 132);
  }
  EXPECT_EQ(is_later.size(), 2u);
  EXPECT_GT(processors.size(), 30u);
  EXPECT_EQ(DrawSurroundings(7), DrawSurroundings(7));
}

}  // namespace
}  // namespace cupel::gpu
