// Parts of a warp that execute one warp-level instruction together, each with its own mask, like
// tiles of cooperative groups.
// SPDX-License-Identifier: Apache-2.0

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// Each lane stores %d; %mask names its eight neighbours, %lane is its number.
std::string PartsKernel(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<4>; .reg .b32 %lane, %mask, %d, %r<8>; .reg .b64 %out;
ld.param.u64 %out, [out]; mov.u32 %lane, %tid.x; mad.wide.u32 %out, %lane, 4, %out;
and.b32 %r0, %lane, 24; shl.b32 %mask, 255, %r0; mov.u32 %d, 0;
)" + body +
         "\nst.global.u32 [%out], %d; ret; }\n";
}

std::vector<uint32_t> Stored(const std::string& body) {
  Interpreter run(PartsKernel(body));
  run.options.full_checks = true;
  const uint64_t out = run.Buffer(std::vector<uint32_t>(32));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_TRUE(outcome.completed) << body << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "") << body;
  return run.Read<uint32_t>(out, 32);
}

TEST(WarpPartsTest, EachPartGetsItsOwnResult) {
  const std::vector<uint32_t> sums = Stored("redux.sync.add.u32 %d, %lane, %mask;");
  const std::vector<uint32_t> votes =
      Stored("setp.gt.u32 %p1, %lane, 11; vote.sync.ballot.b32 %d, %p1, %mask;");
  const std::vector<uint32_t> values =
      Stored("shfl.sync.bfly.b32 %d, %lane, 7, 0x181f, %mask; bar.warp.sync %mask;");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t first = lane / 8 * 8;
    EXPECT_EQ(sums[lane], 8 * first + 28) << lane;
    const uint32_t expected = first == 0 ? 0u : (first == 8 ? 0xf000u : 0xffu << first);
    EXPECT_EQ(votes[lane], expected) << lane;
    EXPECT_EQ(values[lane], lane ^ 7u) << lane;
  }
}

TEST(WarpPartsTest, CompletePartsDoNotWaitForOthers) {
  // Lanes 4 to 7 arrive later than the rest of their part. The other parts are complete before.
  const std::vector<uint32_t> sums = Stored(R"(mov.u32 %r1, %lane;
setp.lt.u32 %p1, %lane, 4; setp.gt.u32 %p2, %lane, 7; or.pred %p1, %p1, %p2;
@%p1 bra REDUCE;
add.u32 %r1, %r1, 100;
bra.uni REDUCE;
REDUCE: redux.sync.add.u32 %d, %r1, %mask;)");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(sums[lane], lane / 8 * 64 + 28 + (lane < 8 ? 400 : 0)) << lane;
  }
}

}  // namespace
}  // namespace cupel::emu
