// SPDX-License-Identifier: Apache-2.0
#include "record/read_mask.h"

#include <gtest/gtest.h>

#include "ptx/parser.h"

namespace cupel::record {
namespace {

/// The mask of a kernel with a structure of 32 words, as one digit for each word.
std::string WordsRead(const std::string& body) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 s[256]) {\n"
      ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<9>;\n" +
      body + "ret; }");
  EXPECT_TRUE(module) << module.error().ToString();
  if (!module) return "";
  const std::string mask = ReadMask(module->functions[0]);
  std::string words;
  for (size_t i = 0; i < mask.size(); i += 8) {
    int read = 0;
    for (size_t k = i; k < i + 8; ++k) read += mask[k] != 0 ? 1 : 0;
    words += static_cast<char>('0' + read);
  }
  return words;
}

const std::string kNone(32, '0'), kAll(32, '8');

TEST(ReadMask, FollowsAddressesThroughRegisters) {
  EXPECT_EQ(WordsRead(""), kNone);
  EXPECT_EQ(WordsRead("ld.param.u32 %r1, [s+12];"), "04" + std::string(30, '0'));
  EXPECT_EQ(WordsRead("mov.b64 %d1, s; add.s64 %d2, %d1, 64; ld.param.v2.u64 {%d3, %d4}, [%d2+8];"
                      "st.global.u64 [%d3], %d4;"),
            std::string(9, '0') + "88" + std::string(21, '0'));
  EXPECT_EQ(WordsRead("mov.b64 %d1, s; cvta.param.u64 %d2, %d1; add.s64 %d3, %d2, 128;"
                      "prefetch.tensormap [%d3];"),
            std::string(16, '0') + std::string(16, '8'));
  EXPECT_EQ(WordsRead("mov.b64 %d1, s; cvta.param.u64 %d2, %d1;"
                      "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
                      "[%r1], [%d2, {%r2}], [%r3];"),
            std::string(16, '8') + std::string(16, '0'));
}

TEST(ReadMask, LeavesOutElementsOfVectorsThatNothingUses) {
  // A structure's last byte and its padding, as nvcc loads them.
  EXPECT_EQ(WordsRead("ld.param.v4.u8 {%r1, %r2, %r3, %r4}, [s+20]; st.global.u32 [%d1], %r1;"),
            "001" + std::string(29, '0'));
  EXPECT_EQ(WordsRead("ld.param.v2.u64 {%d1, %d2}, [s+16]; st.global.u32 [%d2], %r1;"),
            "0008" + std::string(28, '0'));
  EXPECT_EQ(WordsRead("ld.param.v2.u64 {_, %d2}, [s+16]; st.global.u32 [%d2], %r1;"),
            "0008" + std::string(28, '0'));
  // A use as a guard, as an address, or in another branch counts.
  EXPECT_EQ(WordsRead("ld.param.v2.u32 {%r1, %r2}, [s]; add.u32 %r3, %r1, %r2; st.global.u32 "
                      "[%d1], %r3;"),
            "8" + std::string(31, '0'));
  // If not even the beginning is inside of the parameter, it may be anywhere.
  EXPECT_EQ(WordsRead("ld.param.v2.u64 {%d1, %d2}, [s+-16]; st.global.u64 [%d1], %d2;"), kAll);
}

TEST(ReadMask, MarksAllWhereAnAddressLeadsAnywhere) {
  for (const char* body :
       {"mov.b64 %d1, s; add.s64 %d2, %d1, %d3; ld.param.u32 %r1, [%d2];",
        "mov.b64 %d1, s; mov.b64 %d1, 0; ld.param.u32 %r1, [%d1];",
        "mov.b64 %d1, s; @%p mov.b64 %d2, %d1; ld.param.u32 %r1, [%d2];",
        "mov.b64 %d1, s; cvta.param.u64 %d2, %d1; st.global.u64 [%d3], %d2;",
        "mov.b64 %d1, s; ld.param.u32 %r1, [%d1+254];", "ld.param.u32 %r1, [s+-4];"}) {
    EXPECT_EQ(WordsRead(body), kAll) << body;
  }
}

}  // namespace
}  // namespace cupel::record
