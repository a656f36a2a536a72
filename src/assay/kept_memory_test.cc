// SPDX-License-Identifier: Apache-2.0
#include "assay/kept_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace cupel::assay {
namespace {

using std::string_literals::operator""s;

/// Zeros in eight bytes of a workspace, 1 and 2 in two of them, an address in another, and a
/// launch.
plan::Plan TablePlan() {
  plan::Plan plan;
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{16}, uint64_t{4}}) {
    plan::Buffer& buffer = plan.buffers.emplace_back();
    buffer.kind = bytes == 4 ? plan::BufferKind::kTemporary : plan::BufferKind::kWorkspace;
    buffer.bytes = bytes;
  }
  plan.nodes.push_back({plan::Fill{{0, 0}, "\0"s, 8}, {}});
  plan.nodes.push_back({plan::Upload{{0, 2}, "\1\2"s, {}, {}}, {0}});
  plan.nodes.push_back({plan::Upload{{1, 0}, std::string(8, '\0'), {{0, {0, 0}}}, {}}, {1}});
  plan.nodes.push_back({plan::Launch{}, {2}});
  plan.prepared = 3;
  plan.outputs = {{{2, 0}, DType::kF32, {1}, {1}}};
  return plan;
}

engine::OutputTensor Bytes(const std::string& bytes) {
  engine::OutputTensor tensor;
  for (const char c : bytes) tensor.bytes.push_back(static_cast<std::byte>(c));
  return tensor;
}

engine::Run RunWith(const std::string& first, const std::string& second) {
  engine::Run run;
  run.outputs = {Bytes("yyyy"), Bytes(first), Bytes(second)};
  return run;
}

TEST(KeptMemory, ComparesWhatTheHostSetUp) {
  const KeptMemory kept(TablePlan());
  ASSERT_TRUE(kept.is_watched());
  EXPECT_EQ(kept.Watching(TablePlan()).outputs.size(), 3u);
  const std::string table = "\0\0\1\2\0\0\0\0"s;
  engine::Run run = RunWith(table, "an address, rest");
  EXPECT_TRUE(kept.Check(run));
  EXPECT_EQ(run.outputs.size(), 1u);  // only the plan's own
  for (size_t i = 0; i < table.size(); ++i) {
    std::string other = table;
    other[i] = 7;
    run = RunWith(other, "an address, rest");
    EXPECT_FALSE(kept.Check(run)) << i;
  }
}

TEST(KeptMemory, LooksAtWhatSampledBlocksWrote) {
  const KeptMemory kept(TablePlan());
  engine::Run run = RunWith("\2\0"s, "");
  run.outputs[1].is_sampled = run.outputs[2].is_sampled = true;
  run.outputs[1].written = {{3, 5}};
  EXPECT_TRUE(kept.Check(run));
  run = RunWith("\2\1"s, "");
  run.outputs[1].is_sampled = run.outputs[2].is_sampled = true;
  run.outputs[1].written = {{3, 5}};
  EXPECT_FALSE(kept.Check(run));
}

TEST(KeptMemory, WatchesNothingThatKernelsMade) {
  plan::Plan plan = TablePlan();
  plan.prepared = 4;
  EXPECT_FALSE(KeptMemory(plan).is_watched());
  EXPECT_FALSE(KeptMemory(plan::Plan{}).is_watched());
}

TEST(KeptMemory, WhatIsTooLargeCountsAsChanged) {
  plan::Plan plan = TablePlan();
  EXPECT_FALSE(KeptMemory(plan).is_unwatchable());
  plan.buffers[0].bytes = uint64_t{65} << 20;
  EXPECT_TRUE(KeptMemory(plan).is_unwatchable());
}

TEST(KeptMemory, PlansCanDoWithoutTheSetUp) {
  const plan::Plan plan = WithoutPrepared(TablePlan());
  ASSERT_EQ(plan.nodes.size(), 1u);
  EXPECT_TRUE(plan.nodes[0].after.empty());
  EXPECT_EQ(plan.prepared, 0);
}

}  // namespace
}  // namespace cupel::assay
