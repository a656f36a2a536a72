// Indices of 32 bits that wrap to places inside their buffers (RunOptions::addresses_only).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "emu/exec/emulator.h"
#include "os/mapped_file.h"

namespace cupel::emu {
namespace {

/// A kernel that loads a float at an index, which `body` computes as %rd3 (in bytes) of block %r1,
/// thread %r2 and n = %r3.
std::string KernelWith(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{
  .reg .b32 %r<12>;
  .reg .b64 %rd<12>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r3, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
)" + body +
         R"(
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  ret;
}
)";
}

/// The codes of what is found in a launch of `blocks` blocks of 32 threads on 2^33 floats.
std::string Found(const std::string& body, uint32_t n, uint32_t blocks) {
  constexpr uint64_t kBytes = uint64_t{1} << 35;
  const auto zeros = os::MappedFile::Zeros(kBytes);
  plan::Plan plan;
  plan.buffers = {{plan::BufferKind::kArgument, kBytes, 0, ""}};
  plan::Launch launch;
  launch.kernel = "k";
  launch.grid = {blocks, 1, 1};
  launch.block = {32, 1, 1};
  launch.parameters = std::string(12, '\0');
  std::memcpy(launch.parameters.data() + 8, &n, sizeof n);
  launch.relocations = {{0, {0, 0}}};
  plan.nodes = {{launch, {}}};
  build::Image image;
  image.ptx = KernelWith(body);
  auto program = MakeEmulator(*device::Find("h100"), {1})->Load(build::OneImage(image));
  EXPECT_TRUE(program) << program.error().message;
  engine::RunOptions options;
  options.max_blocks = 16;
  options.counters = false;
  options.addresses_only = true;
  const std::span<const std::byte> argument = zeros->bytes();
  auto run = (*program)->Execute(plan, std::span(&argument, 1), options);
  EXPECT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->unsupported, "");
  std::string codes;
  for (const records::Finding& finding : run->findings) codes += finding.code + ";";
  return codes;
}

// Unsigned: wraps to the start of the buffer, which a check of bounds cannot see.
constexpr char kUnsigned[] = R"(
  mad.lo.s32 %r4, %r1, %r3, %r2;
  mul.wide.u32 %rd3, %r4, 4;
)";
constexpr char kWide[] = R"(
  mul.wide.u32 %rd5, %r1, %r3;
  cvt.u64.u32 %rd6, %r2;
  add.s64 %rd7, %rd5, %rd6;
  shl.b64 %rd3, %rd7, 2;
)";

TEST(Wraps, NamesWrappedIndices) {
  EXPECT_EQ(Found(kUnsigned, 4096, 1u << 20), "");  // up to 2^32
  EXPECT_EQ(Found(kUnsigned, 4096, (1u << 20) + 1), "wrapped_index;");
  EXPECT_EQ(Found(kWide, 4096, 1u << 21), "");
}

TEST(Wraps, FollowsOtherOperations) {
  for (const char* body :
       {// through a register, a sum and a shift
        "mul.lo.s32 %r4, %r1, %r3; mov.b32 %r5, %r4; add.s32 %r6, %r5, %r2; mul.wide.u32 %rd3, "
        "%r6, 4;",
        // a conversion before the product
        "mad.lo.s32 %r4, %r1, %r3, %r2; cvt.u64.u32 %rd5, %r4; shl.b64 %rd3, %rd5, 2;",
        // bytes of 32 bits
        "mad.lo.s32 %r4, %r1, 64, %r2; shl.b32 %r5, %r4, 2; cvt.u64.u32 %rd3, %r5;"}) {
    EXPECT_EQ(Found(body, 4096, 1u << 25), "wrapped_index;") << body;
    EXPECT_EQ(Found(body, 4096, 1u << 8), "") << body;
  }
}

TEST(Wraps, LeavesOutWhatIsMeant) {
  for (const char* body :
       {// the same bits in the same register, but from another operation
        "mad.lo.s32 %r4, %r1, 65536, 65535; or.b32 %r4, %r4, 0; mul.wide.u32 %rd3, %r4, 4;",
        // a hash
        "mul.lo.s32 %r4, %r1, -1640531527; and.b32 %r5, %r4, 1023; mul.wide.u32 %rd3, %r5, 4;",
        "mul.lo.s32 %r4, %r1, -1640531527; shr.u32 %r5, %r4, 8; mul.wide.u32 %rd3, %r5, 4;",
        // beyond 32 bits and back
        "mad.lo.s32 %r4, %r1, 65536, %r2; mul.lo.s32 %r5, %r1, -65536; add.s32 %r6, %r4, %r5; "
        "mul.wide.s32 %rd3, %r6, 4;",
        // negative, and then not
        "sub.s32 %r4, %r2, %r3; add.s32 %r5, %r4, %r3; mul.wide.s32 %rd3, %r5, 4;",
        // an unsigned parameter beyond 2^31
        "mul.wide.u32 %rd3, %r3, 4;", "add.s32 %r4, %r3, %r2; mul.wide.u32 %rd3, %r4, 4;"}) {
    EXPECT_EQ(Found(body, 3'000'000'000u, 1u << 20), "") << body;
  }
}

}  // namespace
}  // namespace cupel::emu
