// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "emu/exec/emulator.h"
#include "os/mapped_file.h"

namespace cupel::emu {
namespace {

// twice: y[i] = 2 x[i]; chained: adds to y.
constexpr const char* kPtx = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter;
.visible .entry twice(.param .u64 x, .param .u64 y)
{
  .reg .b32 %r<5>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r3, %r1, 32, %r2;
  mul.wide.s32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd5], %f2;
  ret;
}
.visible .entry counted(.param .u64 x, .param .u64 y)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, counter;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry summed(.param .u64 x, .param .u64 y)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [y];
  red.global.add.u32 [%rd1], 1;
  ret;
}
)";

constexpr uint32_t kGridBlocks = 4096;

class SamplingTest : public ::testing::Test {
 protected:
  SamplingTest() {
    plan_.buffers = {{plan::BufferKind::kArgument, kGridBlocks * 128, 0, ""},
                     {plan::BufferKind::kTemporary, kGridBlocks * 128, -1, ""},
                     {plan::BufferKind::kTemporary, kGridBlocks * 128, -1, ""}};
    plan_.outputs = {{{1, 0}, DType::kF32, {kGridBlocks, 32}, {32, 1}}};
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i);
  }
  static plan::Node Launch(const std::string& kernel, int from, int to) {
    plan::Launch launch;
    launch.kernel = kernel;
    launch.grid = {kGridBlocks, 1, 1};
    launch.block = {32, 1, 1};
    launch.parameters = std::string(16, '\0');
    launch.relocations = {{0, {from, 0}}, {8, {to, 0}}};
    return {launch, {}};
  }
  engine::Run Execute() {
    build::Image image;
    image.ptx = kPtx;
    auto program = MakeEmulator(*device::Find("h100"), {2})->Load(build::OneImage(image));
    EXPECT_TRUE(program);
    engine::RunOptions options;
    options.max_blocks = 64;
    options.seed = seed_;
    const std::span<const std::byte> argument = std::as_bytes(std::span(x_));
    auto run = (*program)->Execute(plan_, std::span(&argument, 1), options);
    EXPECT_TRUE(run) << (run ? "" : run.error().message);
    EXPECT_TRUE(run && run->completed);
    return run ? *run : engine::Run{};
  }

  plan::Plan plan_;
  std::vector<float> x_ = std::vector<float>(kGridBlocks * 32);
  uint64_t seed_ = 1;
};

TEST_F(SamplingTest, SampledBlocksWriteCorrectValues) {
  plan_.nodes = {Launch("twice", 0, 1)};
  const engine::Run run = Execute();
  EXPECT_EQ(run.all_blocks, kGridBlocks);
  EXPECT_GE(run.emulated_blocks, 64u);
  EXPECT_LE(run.emulated_blocks, 70u);
  const engine::OutputTensor& output = run.outputs[0];
  ASSERT_TRUE(output.is_sampled);
  size_t at = 0;
  int64_t elements = 0;
  for (const engine::ElementRange& range : output.written) {
    for (int64_t i = range.begin; i < range.end; ++i, at += 4) {
      float value = 0;
      ASSERT_LE(at + 4, output.bytes.size());
      std::memcpy(&value, output.bytes.data() + at, 4);
      EXPECT_EQ(value, 2 * x_[static_cast<size_t>(i)]);
    }
    elements += range.end - range.begin;
  }
  EXPECT_EQ(at, output.bytes.size());
  EXPECT_EQ(elements, static_cast<int64_t>(run.emulated_blocks) * 32);
  EXPECT_EQ(output.written.front().begin, 0);
  EXPECT_EQ(output.written.back().end, kGridBlocks * 32);
}

TEST_F(SamplingTest, ScalesCountsToTheWholeGrid) {
  plan_.nodes = {Launch("twice", 0, 1)};
  const engine::Run run = Execute();
  const records::LaunchCounters& counters = run.counters.launches.at(0);
  EXPECT_EQ(counters.warp_instructions, kGridBlocks * 12u);
  EXPECT_EQ(counters.global_load_sectors, kGridBlocks * 4u);
  EXPECT_EQ(counters.blocks_run, run.emulated_blocks);
}

TEST_F(SamplingTest, DifferentSeedsChooseDifferentBlocks) {
  const auto one = SampleBlocks({1000, 10, 1}, {}, 100, 1),
             two = SampleBlocks({1000, 10, 1}, {}, 100, 2);
  EXPECT_NE(one, two);
  for (uint64_t corner : {0u, 999u, 9000u, 9999u}) {
    EXPECT_TRUE(std::binary_search(one.begin(), one.end(), corner)) << corner;
  }
  bool neighbours = false;
  for (size_t i = 1; i < one.size(); ++i) neighbours = neighbours || one[i] == one[i - 1] + 1;
  EXPECT_TRUE(neighbours);
  EXPECT_EQ(SampleBlocks({5, 1, 1}, {}, 100, 1).size(), 5u);
}

TEST_F(SamplingTest, RunsAllBlocksIfALaterNodeReadsTheResult) {
  plan_.nodes = {Launch("twice", 0, 2), Launch("twice", 2, 1)};
  const engine::Run run = Execute();
  EXPECT_GE(run.emulated_blocks, kGridBlocks + 64u);
  EXPECT_LE(run.emulated_blocks, kGridBlocks + 70u);
}

TEST_F(SamplingTest, RunsAllDependentBlocks) {
  for (const char* kernel : {"counted", "summed"}) {
    plan_.nodes = {Launch(kernel, 0, 1)};
    const engine::Run run = Execute();
    EXPECT_EQ(run.emulated_blocks, kGridBlocks) << kernel;
    EXPECT_FALSE(run.outputs[0].is_sampled);
  }
}

TEST_F(SamplingTest, DoesNotSampleStridedOutputsOrHiddenPointers) {
  plan_.nodes = {Launch("twice", 0, 1)};
  plan_.outputs[0].strides = {1, kGridBlocks};
  EXPECT_EQ(Execute().emulated_blocks, kGridBlocks);
  plan_.outputs[0].strides = {32, 1};
  plan::Upload table;
  table.to = {2, 0};
  table.bytes = std::string(8, '\0');
  table.relocations = {{0, {1, 0}}};
  plan_.nodes.insert(plan_.nodes.begin(), plan::Node{table, {}});
  EXPECT_EQ(Execute().emulated_blocks, kGridBlocks);
}

TEST_F(SamplingTest, ChecksAddressesWhereDataDoNotFit) {
  // 16 GB of input and output: thread i of block b accesses element 32 b + i, as int.
  constexpr uint32_t kBlocks = 1u << 27;
  constexpr uint64_t kBytes = uint64_t{kBlocks} * 128;
  auto zeros = os::MappedFile::Zeros(kBytes);
  ASSERT_TRUE(zeros) << zeros.error().ToString();
  for (const uint32_t blocks : {kBlocks / 2, kBlocks}) {
    plan_.nodes = {Launch("twice", 0, 1), Launch("summed", 0, 1)};
    for (plan::Node& node : plan_.nodes) std::get<plan::Launch>(node.work).grid = {blocks, 1, 1};
    for (plan::Buffer& buffer : plan_.buffers) buffer.bytes = uint64_t{blocks} * 128;
    plan_.outputs[0].shape = {blocks, 32};
    build::Image image;
    image.ptx = kPtx;
    auto program = MakeEmulator(*device::Find("h100"), {2})->Load(build::OneImage(image));
    ASSERT_TRUE(program);
    engine::RunOptions options;
    options.max_blocks = 16;
    options.counters = false;
    options.addresses_only = true;
    const auto argument = zeros->bytes().first(uint64_t{blocks} * 128);
    auto run = (*program)->Execute(plan_, std::span(&argument, 1), options);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_TRUE(run->outputs.empty());
    EXPECT_LE(run->emulated_blocks, 64u);
    if (blocks < kBlocks) {
      EXPECT_TRUE(run->completed);
      EXPECT_TRUE(run->findings.empty());
    } else {  // 32 b + i wraps to a negative int in the upper half of the blocks
      ASSERT_FALSE(run->findings.empty());
      EXPECT_EQ(run->findings[0].code, "wrapped_index");
    }
  }
}

}  // namespace
}  // namespace cupel::emu
