// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/emulator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

using plan::Buffer;
using plan::BufferKind;

constexpr const char* kHeader = ".version 8.0\n.target sm_90\n.address_size 64\n";

// out[i] = in[i] * factor for i < n; factor is a __constant__.
constexpr const char* kScale = R"(
.const .align 4 .f32 factor = 0f40400000;
.global .align 4 .b8 table[8] = {0, 0, 0, 64};
.global .align 8 .u64 pointer[1] = {generic(table)};
.visible .entry scale(.param .u64 in, .param .u64 out, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.s32 %rd5, %r5, 4;
  add.s64 %rd6, %rd3, %rd5;
  ld.global.f32 %f1, [%rd6];
  ld.const.f32 %f2, [factor];
  mul.f32 %f3, %f1, %f2;
  add.s64 %rd7, %rd4, %rd5;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}
)";

// out[0] = *(float*)pointer[0]: reads through an address that an initialiser contains.
constexpr const char* kFollow = R"(
.visible .entry follow(.param .u64 out)
{
  .reg .f32 %f<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u64 %rd3, [pointer];
  ld.f32 %f1, [%rd3];
  st.global.f32 [%rd2], %f1;
  ret;
}
)";

std::string Bytes(const void* data, size_t size) {
  return std::string(static_cast<const char*>(data), size);
}

template <typename T>
std::span<const std::byte> Storage(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

class EmulatorTest : public ::testing::Test {
 protected:
  EmulatorTest() { image_.ptx = std::string(kHeader) + kScale + kFollow; }

  Result<engine::Run> TryRun(std::span<const std::span<const std::byte>> arguments) {
    const auto emulator = MakeEmulator(*device::Find("h100"), {2});
    auto program = emulator->Load(build::OneImage(image_));
    if (!program) return tl::unexpected<Error>(program.error());
    return (*program)->Execute(plan_, arguments, options_);
  }
  engine::Run Run(std::span<const std::span<const std::byte>> arguments) {
    auto run = TryRun(arguments);
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
    return run ? *run : engine::Run{};
  }
  static plan::Launch Scale(int in, int out, uint32_t n) {
    plan::Launch launch;
    launch.kernel = "scale";
    launch.grid = {(n + 63) / 64, 1, 1};
    launch.block = {64, 1, 1};
    launch.parameters = std::string(16, '\0') + Bytes(&n, sizeof n);
    launch.relocations = {{0, {in, 0}}, {8, {out, 0}}};
    return launch;
  }
  /// The plan scales argument 0 into temporary 1 and returns it.
  void PlanScale(uint32_t n) {
    plan_.buffers = {Buffer{BufferKind::kArgument, n * 4, 0, ""},
                     Buffer{BufferKind::kTemporary, n * 4, -1, ""}};
    plan_.nodes = {plan::Node{Scale(0, 1, n), {}}};
    plan_.outputs = {plan::View{{1, 0}, DType::kF32, {n}, {1}}};
  }
  static std::vector<float> Floats(const engine::OutputTensor& output) {
    std::vector<float> values(output.bytes.size() / 4);
    std::memcpy(values.data(), output.bytes.data(), output.bytes.size());
    return values;
  }
  static const records::Finding* Find(const engine::Run& run, const std::string& code) {
    for (const records::Finding& finding : run.findings) {
      if (finding.code == code) return &finding;
    }
    return nullptr;
  }

  build::Image image_;
  plan::Plan plan_;
  engine::RunOptions options_;
};

TEST_F(EmulatorTest, RejectsBuffersThatTogetherExceedMemory) {
  const auto physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const std::vector<float> in(100);
  PlanScale(100);
  for (int i = 0; i < 8; ++i) {
    plan_.buffers.push_back(Buffer{BufferKind::kWorkspace, physical / 8, -1, ""});
  }
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const auto run = TryRun(arguments);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kEnvironment);
  EXPECT_NE(run.error().message.find("three quarters"), std::string::npos);
}

TEST_F(EmulatorTest, RunsALaunchFromArgumentsToOutputs) {
  std::vector<float> in(100);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  PlanScale(100);
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  EXPECT_TRUE(run.completed);
  EXPECT_TRUE(run.findings.empty());
  ASSERT_EQ(run.outputs.size(), 1u);
  const std::vector<float> got = Floats(run.outputs[0]);
  ASSERT_EQ(got.size(), 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], 3 * in[i]);
  ASSERT_EQ(run.counters.launches.size(), 1u);
  const records::LaunchCounters& c = run.counters.launches[0];
  EXPECT_EQ(c.global_load_bytes, 400u);
  EXPECT_EQ(c.global_store_bytes, 400u);
  EXPECT_EQ(c.global_load_sectors, 13u);
  EXPECT_GT(c.estimated_us, 0);
  EXPECT_DOUBLE_EQ(run.counters.estimated_us, c.estimated_us);
  EXPECT_GT(c.occupancy, 0);
  const task::Tensor view = run.outputs[0].View();
  EXPECT_EQ(view.shape, (std::vector<int64_t>{100}));
  EXPECT_EQ(view.storage.size(), 400u);
}

TEST_F(EmulatorTest, SymbolsStartWithTheirInitialisersInEveryExecution) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  plan_.buffers.push_back(Buffer{BufferKind::kSymbol, 4, -1, "factor"});
  const float five = 5;
  plan_.nodes.insert(plan_.nodes.begin() + 1,
                     plan::Node{plan::Upload{{2, 0}, Bytes(&five, 4), {}, {}}, {}});
  plan_.nodes.push_back(plan::Node{Scale(0, 1, 1), {}});
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const auto emulator = MakeEmulator(*device::Find("h100"), {1});
  auto program = emulator->Load(build::OneImage(image_));
  ASSERT_TRUE(program.has_value());
  for (int round = 0; round < 2; ++round) {
    auto run = (*program)->Execute(plan_, arguments, options_);
    ASSERT_TRUE(run.has_value());
    // The first launch multiplies by 3, the second one, of one element, by 5.
    EXPECT_EQ(Floats(run->outputs[0]), (std::vector<float>{5, 6})) << "round " << round;
  }
}

TEST_F(EmulatorTest, InitialisersMayContainAddresses) {
  plan_.buffers = {Buffer{BufferKind::kTemporary, 4, -1, ""}};
  plan::Launch launch;
  launch.kernel = "follow";
  launch.parameters = std::string(8, '\0');
  launch.relocations = {{0, {0, 0}}};
  plan_.nodes = {plan::Node{launch, {}}};
  plan_.outputs = {plan::View{{0, 0}, DType::kF32, {1}, {1}}};
  const engine::Run run = Run({});
  ASSERT_TRUE(run.completed);
  EXPECT_EQ(Floats(run.outputs[0]), (std::vector<float>{2}));
}

// Each block writes the address of the input and its distance from `table`, then the block's
// multiprocessor, the number of multiprocessors, its warp id, and the number of warp ids.
constexpr const char* kWhere = R"(
.visible .entry where(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u64 %rd3, table;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd4, %r1, 32;
  add.s64 %rd5, %rd2, %rd4;
  st.global.u64 [%rd5], %rd1;
  sub.s64 %rd6, %rd1, %rd3;
  st.global.u64 [%rd5+8], %rd6;
  mov.u32 %r2, %smid;
  st.global.u32 [%rd5+16], %r2;
  mov.u32 %r3, %nsmid;
  st.global.u32 [%rd5+20], %r3;
  mov.u32 %r4, %warpid;
  st.global.u32 [%rd5+24], %r4;
  mov.u32 %r5, %nwarpid;
  st.global.u32 [%rd5+28], %r5;
  ret;
}
)";

struct Where {
  uint64_t address = 0;
  int64_t distance = 0;
  uint32_t processor = 0, processors = 0, place = 0, places = 0;
  bool operator==(const Where&) const = default;
};

TEST_F(EmulatorTest, SeedDeterminesMultiprocessorsAndAddresses) {
  constexpr uint32_t kBlocks = 132;
  image_.ptx += kWhere;
  PlanScale(1);
  plan::Launch launch = Scale(0, 1, 1);
  launch.kernel = "where";
  launch.parameters.resize(16);
  launch.grid = {kBlocks, 1, 1};
  launch.block = {32, 1, 1};
  plan_.nodes = {plan::Node{launch, {}}};
  plan_.buffers[1].bytes = kBlocks * sizeof(Where);
  plan_.outputs = {plan::View{{1, 0}, DType::kI64, {kBlocks * 4}, {1}}};
  const std::vector<float> in = {1};
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const auto where_of = [&](uint64_t seed) {
    options_.seed = seed;
    const engine::Run run = Run(arguments);
    EXPECT_TRUE(run.completed) << (run.findings.empty() ? run.unsupported
                                                        : run.findings[0].message);
    std::vector<Where> where(kBlocks);
    if (run.completed) {
      std::memcpy(where.data(), run.outputs.at(0).bytes.data(), kBlocks * sizeof(Where));
    }
    return where;
  };
  const auto first = where_of(1);
  EXPECT_EQ(where_of(1), first);
  std::set<uint64_t> addresses;
  std::set<uint32_t> of_block_0, places;
  bool is_above = false, is_below = false;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const auto where = where_of(seed);
    addresses.insert(where[0].address);
    is_above |= where[0].distance > 0;
    is_below |= where[0].distance < 0;
    of_block_0.insert(where[0].processor);
    places.insert(where[0].place);
    std::set<uint32_t> taken;
    for (const Where& w : where) {
      taken.insert(w.processor);
      EXPECT_LT(w.place, w.places);
      EXPECT_EQ(w.processors, kBlocks);  // of an H100
      EXPECT_EQ(w.places, 64u);
    }
    EXPECT_EQ(taken.size(), kBlocks) << "one multiprocessor each";
    EXPECT_LT(*taken.rbegin(), kBlocks);
  }
  EXPECT_EQ(addresses.size(), 16u);
  EXPECT_TRUE(is_above && is_below);
  EXPECT_GT(of_block_0.size(), 8u);
  EXPECT_GT(places.size(), 8u);
}

TEST_F(EmulatorTest, PointersToVariablesStayValidInLaterRuns) {
  const std::vector<float> in = {1};
  PlanScale(1);
  plan::Launch launch = Scale(0, 1, 1);
  launch.kernel = "follow";
  launch.parameters = std::string(8, '\0');
  launch.relocations = {{0, {1, 0}}};
  plan_.nodes = {plan::Node{launch, {}}};
  const auto program = MakeEmulator(*device::Find("h100"), {2})->Load(build::OneImage(image_));
  ASSERT_TRUE(program);
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    options_.seed = seed;
    const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
    const auto run = (*program)->Execute(plan_, arguments, options_);
    ASSERT_TRUE(run && run->completed) << seed;
    EXPECT_EQ(Floats(run->outputs.at(0)), std::vector<float>{2}) << seed;
  }
}

TEST_F(EmulatorTest, UnwrittenOutputsAreNan) {
  std::vector<float> in(64, 1);
  PlanScale(64);
  std::get<plan::Launch>(plan_.nodes[0].work) = Scale(0, 1, 60);
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const std::vector<float> got = Floats(Run(arguments).outputs[0]);
  EXPECT_EQ(got[59], 3);
  for (size_t i = 60; i < 64; ++i) EXPECT_TRUE(std::isnan(got[i]));
}

TEST_F(EmulatorTest, NodesRunInOrderAndViewsAreExtracted) {
  std::vector<float> in = {1, 2, 3, 4, 5, 6};
  PlanScale(6);
  plan_.buffers.push_back(Buffer{BufferKind::kWorkspace, 24, -1, ""});
  plan_.nodes.push_back(plan::Node{plan::Copy{{2, 0}, {1, 0}, 24}, {0}});
  plan_.nodes.push_back(plan::Node{plan::Fill{{2, 0}, std::string(4, '\0'), 1}, {1}});
  plan_.outputs = {plan::View{{2, 0}, DType::kF32, {3, 2}, {1, 3}},
                   plan::View{{plan::kNoneOutput, 0}, DType::kF32, {}, {}}};
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  ASSERT_EQ(run.outputs.size(), 2u);
  EXPECT_EQ(Floats(run.outputs[0]), (std::vector<float>{0, 12, 6, 15, 9, 18}));
  EXPECT_TRUE(run.outputs[1].is_none);
}

TEST_F(EmulatorTest, ReportsWritesToInputs) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  std::get<plan::Launch>(plan_.nodes[0].work) = Scale(0, 0, 2);
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run bad = Run(arguments);
  ASSERT_NE(Find(bad, "writes_input"), nullptr);
  EXPECT_NE(Find(bad, "writes_input")->where.find("argument 0"), std::string::npos);
  EXPECT_EQ(in, (std::vector<float>{1, 2}));
  // The same holds if the plan returns the input: the caller's tensor is corrupted anyway.
  plan_.outputs = {plan::View{{0, 0}, DType::kF32, {2}, {1}}};
  EXPECT_NE(Find(Run(arguments), "writes_input"), nullptr);
}

TEST_F(EmulatorTest, OutOfBoundsReadNamesTheBuffer) {
  std::vector<float> in(63, 1);
  PlanScale(64);
  plan_.buffers[0].bytes = 63 * 4;
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  EXPECT_FALSE(run.completed);
  EXPECT_TRUE(run.outputs.empty());
  const records::Finding* finding = Find(run, "out_of_bounds");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->where.find("argument 0"), std::string::npos) << finding->where;
  EXPECT_EQ(finding->thread.x, 63u);
}

TEST_F(EmulatorTest, IllegalLaunchesStopTheRun) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  std::get<plan::Launch>(plan_.nodes[0].work).block = {2048, 1, 1};
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  EXPECT_FALSE(run.completed);
  ASSERT_NE(Find(run, "illegal_launch"), nullptr);
  EXPECT_EQ(Find(run, "illegal_launch")->kernel, "scale");
}

TEST_F(EmulatorTest, LaunchLimitsUseRegistersOfTheImage) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  std::get<plan::Launch>(plan_.nodes[0].work).block = {1024, 1, 1};
  image_.resources = {{"scale", 80, 0, 0, 0, 0, 0}};
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  ASSERT_NE(Find(run, "illegal_launch"), nullptr);
  EXPECT_NE(run.findings[0].message.find("80 registers"), std::string::npos);
}

/// A loader's warpgroup releases registers, and two others ask for `more` each.
std::string MovesRegisters(const char* more) {
  return std::string(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry move()\n") +
         "{\n.reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\nsetp.lt.u32 %p, %r, 128;\n"
         "@%p bra LOADER;\nsetmaxnreg.inc.sync.aligned.u32 " +
         more + ";\nret;\nLOADER:\nsetmaxnreg.dec.sync.aligned.u32 32;\nret;\n}\n";
}

TEST_F(EmulatorTest, MovedRegistersMustFitIntoTheBlock) {
  plan::Launch launch;
  launch.kernel = "move";
  launch.grid = {2, 1, 1};
  launch.block = {384, 1, 1};
  plan_.nodes = {plan::Node{launch, {}}};
  // The block has 168 for each of 384 threads: 64,512.
  image_.resources = {{"move", 168, 0, 0, 0, 0, 0}};
  image_.ptx = MovesRegisters("232");  // 63,488 together
  EXPECT_TRUE(Run({}).completed);
  image_.ptx = MovesRegisters("240");  // 65,536
  const engine::Run stuck = Run({});
  EXPECT_FALSE(stuck.completed);
  const records::Finding* finding = Find(stuck, "deadlock");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->message.find("64512"), std::string::npos) << finding->message;
  EXPECT_NE(finding->message.find("65536"), std::string::npos) << finding->message;
  image_.resources[0].registers = 165;  // warps get them in units of eight
  image_.ptx = MovesRegisters("232");
  EXPECT_TRUE(Run({}).completed);
  image_.resources[0].registers = 160;
  EXPECT_FALSE(Run({}).completed);
  image_.resources[0].remarks = {"setmaxnreg ignored to maintain minimum register requirements"};
  EXPECT_TRUE(Run({}).completed) << "ptxas removes the instruction";
}

TEST_F(EmulatorTest, KernelsWithoutPtxAreUnsupported) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  std::get<plan::Launch>(plan_.nodes[0].work).kernel = "_Z7missingv";
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  const engine::Run run = Run(arguments);
  EXPECT_FALSE(run.completed);
  EXPECT_NE(run.unsupported.find("missing()"), std::string::npos) << run.unsupported;
}

TEST_F(EmulatorTest, PointersInsideStructsAreRelocated) {
  // scale's first two parameters could also be one struct {const float* in; float* out;}.
  std::vector<float> in = {1, 2, 3, 4};
  PlanScale(2);
  auto& launch = std::get<plan::Launch>(plan_.nodes[0].work);
  launch.relocations[0].target.offset = 8;
  plan_.buffers[0].bytes = 16;
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  EXPECT_EQ(Floats(Run(arguments).outputs[0]), (std::vector<float>{9, 12}));
  launch.relocations[0].at = 17;  // does not fit; plan validation should reject this
  auto broken = TryRun(arguments);
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(EmulatorTest, ArgumentsMustFitThePlan) {
  std::vector<float> in = {1, 2, 3};
  PlanScale(2);
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  auto run = TryRun(arguments);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(TryRun({}).has_value());
  plan_.device = "a100";
  EXPECT_NE(TryRun(arguments).error().message.find("a100"), std::string::npos);
}

TEST_F(EmulatorTest, CancelsBetweenNodes) {
  std::vector<float> in = {1, 2};
  PlanScale(2);
  options_.cancelled = [] { return true; };
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  auto run = TryRun(arguments);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::kCancelled);
}

TEST_F(EmulatorTest, PlanWithoutKernelsNeedsNoPtx) {
  image_.ptx.clear();
  std::vector<float> in = {1, 2};
  plan_.buffers = {Buffer{BufferKind::kArgument, 8, 0, ""},
                   Buffer{BufferKind::kTemporary, 8, -1, ""}};
  plan_.nodes = {plan::Node{plan::Copy{{1, 0}, {0, 0}, 8}, {}}};
  plan_.outputs = {plan::View{{1, 0}, DType::kF32, {2}, {1}}};
  const std::vector<std::span<const std::byte>> arguments = {Storage(in)};
  EXPECT_EQ(Floats(Run(arguments).outputs[0]), in);
}

// The blocks have 1024 threads and wait at a grid barrier. An H100 holds two of them on each of its
// 132 SMs.
TEST_F(EmulatorTest, DeviceLimitsBlocksThatRunTogether) {
  image_.ptx = TestData("spins.ptx");
  image_.resources = {{"grid_barrier_good", 32, 0, 0, 0, 0, 0}};
  for (const uint32_t blocks : {264u, 265u}) {
    plan::Launch launch;
    launch.kernel = "grid_barrier_good";
    launch.grid = {blocks, 1, 1};
    launch.block = {1024, 1, 1};
    launch.parameters = std::string(24, '\0');
    launch.relocations = {{0, {0, 0}}, {8, {1, 0}}, {16, {2, 0}}};
    plan_.buffers.assign(3, Buffer{BufferKind::kTemporary, blocks * 4, -1, ""});
    plan_.nodes = {plan::Node{plan::Fill{{0, 0}, std::string(4, '\0'), blocks}, {}},
                   plan::Node{launch, {0}}};
    plan_.outputs = {plan::View{{2, 0}, DType::kI32, {blocks}, {1}}};
    const engine::Run run = Run({});
    EXPECT_EQ(run.completed, blocks == 264);
    if (blocks == 264) continue;
    const records::Finding* finding = Find(run, "deadlock");
    ASSERT_NE(finding, nullptr);
    EXPECT_NE(finding->message.find("The device holds 264 blocks"), std::string::npos)
        << finding->message;
    EXPECT_EQ(finding->where, "temporary 0 + 0 bytes");
  }
}

}  // namespace
}  // namespace cupel::emu
