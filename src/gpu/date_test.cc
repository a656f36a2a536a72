// SPDX-License-Identifier: Apache-2.0
#include "gpu/date.h"

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

TEST(Date, OnlyTheClockThatTellsItCounts) {
  EXPECT_TRUE(ReadsDate(Kernel("mov.u64 %d1, %globaltimer;\n")));
  EXPECT_TRUE(ReadsDate(Kernel("mov.u32 %r1, %globaltimer_lo;\n")));
  EXPECT_FALSE(ReadsDate(Kernel("mov.u64 %d1, %clock64;\n")));
}

TEST(Date, EveryReadIsShifted) {
  const std::string ptx = Kernel(
      ".loc 1 2 3\n// begin inline asm\n@%p mov.u64 %d1, %globaltimer;\n// end inline asm\n"
      "L: mov.u32 %r1, %globaltimer_hi;\nmov.u32 %r2, %globaltimer_lo;\n");
  const std::string shifted = WithShiftedDate(ptx);
  const auto module = ptx::Parse(shifted);
  ASSERT_TRUE(module.has_value()) << module.error().message << "\n" << shifted;
  EXPECT_NE(shifted.find("@%p mov.u64 %d1, cupel_now;"), std::string::npos) << shifted;
  EXPECT_NE(shifted.find("mov.u32 %r1, cupel_hi;"), std::string::npos) << shifted;
  EXPECT_NE(shifted.find("mov.u32 %r2, cupel_lo;"), std::string::npos) << shifted;
  // What is left reads it to shift it.
  size_t reads = 0;
  for (size_t at = shifted.find("%globaltimer"); at != std::string::npos; ++reads) {
    EXPECT_EQ(shifted.substr(at - 11, 11), "cupel_now, ");
    at = shifted.find("%globaltimer", at + 1);
  }
  EXPECT_EQ(reads, 3u);
}

TEST(Date, WhatReadsNoDateStaysAsItIsButForAVariable) {
  const std::string body = "mov.u64 %d1, %clock64;\n";
  EXPECT_NE(WithShiftedDate(Kernel(body)).find(body), std::string::npos);
}

TEST(Date, ShiftsSpanDecades) {
  constexpr double kYear = 365.25 * 86400e9;
  std::set<bool> is_later;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto shift = static_cast<double>(DrawDateShift(seed));
    EXPECT_GE(shift, -30 * kYear);
    EXPECT_LE(shift, 60 * kYear);
    is_later.insert(shift > 10 * kYear);
  }
  EXPECT_EQ(is_later.size(), 2u);
  EXPECT_EQ(DrawDateShift(7), DrawDateShift(7));
}

}  // namespace
}  // namespace cupel::gpu
