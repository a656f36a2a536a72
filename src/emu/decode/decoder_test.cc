// Which spellings of instructions the decoder accepts.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emu/decode/kernel_module.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using ::testing::HasSubstr;

/// Kernel::unsupported of a kernel with one instruction. It may use %p1, %r1 to %r8, %f1 to %f8,
/// %rd1 and %rd2 (addresses of global memory).
std::string Unsupported(const std::string& instruction) {
  const auto module = ptx::Parse(
      ".version 8.5\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 a) {\n"
      ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n"
      "ld.param.u64 %rd1, [a];\n" +
      instruction + "\nret;\n}\n");
  if (!module) return module.error().ToString();
  const auto kernels = KernelModule::Decode(*module);
  if (!kernels) return kernels.error().ToString();
  return (*kernels)->Find("k")->unsupported;
}

TEST(DecoderTest, AcceptsWordsThatChangeOnlyWhatIsCached) {
  for (const char* load :
       {"ld.global.ca.u32 %r1", "ld.global.cg.u32 %r1", "ld.global.cs.u32 %r1",
        "ld.global.lu.u32 %r1", "ld.global.cv.u32 %r1", "ld.weak.global.ca.u32 %r1",
        "ld.global.nc.u32 %r1", "ld.global.nc.L1::no_allocate.u32 %r1",
        "ld.global.L1::evict_last.L2::128B.f32 %f1", "ld.global.L2::256B.u32 %r1",
        "ld.relaxed.gpu.global.u32 %r1", "ld.acquire.sys.global.L1::evict_first.u32 %r1",
        "ld.global.nc.L2::evict_first.v4.f32 {%f1, %f2, %f3, %f4}", "ldu.global.u32 %r1"}) {
    EXPECT_EQ(Unsupported(std::string(load) + ", [%rd1];"), "") << load;
  }
  for (const char* rest :
       {"st.global.wb.u32 [%rd1], %r1;", "st.global.wt.u32 [%rd1], %r1;",
        "st.release.cluster.global.u32 [%rd1], %r1;", "st.weak.global.cs.u32 [%rd1], %r1;",
        "st.global.L1::no_allocate.L2::cache_hint.u32 [%rd1], %r1, %rd2;",
        "red.relaxed.gpu.global.add.L2::cache_hint.u32 [%rd1], %r1, %rd2;",
        "atom.acq_rel.cta.global.cas.b32 %r1, [%rd1], %r2, %r3;", "membar.gl;",
        "fence.proxy.async.global;", "fence.acq_rel.cluster;",
        "prefetch.global.L2::evict_last [%rd1];", "ld.global.b32 { %r1 }, [ %rd1 + 0 ];",
        "st.shared.b32 [ %r2 + 4 ], { %r1 };",
        "{ .reg .v4 .f32 v; mov.f32 v.x, %f1; red.global.add.v4.f32 [%rd1], v; }",
        "{ .reg .b16 a; cvt.bf16.f16 a, a; cvt.f16.bf16 a, a; }"}) {
    EXPECT_EQ(Unsupported(rest), "") << rest;
  }
}

TEST(DecoderTest, RejectsWordsThatChangeTheMeaning) {
  for (const char* text :
       {"st.async.mmio.release.sys.global.u32 [%rd1], %r2;",
        "red.async.relaxed.cluster.global.add.u32 [%rd1], %r1;",
        "ld.global.frobnicated.u32 %r1, [%rd1];", "add.saturated.u32 %r1, %r2, %r3;",
        "frobnicate.u32 %r1;", "multimem.red.global.add.f32 [%rd1], %f1;"}) {
    const std::string mnemonic(text, std::string(text).find(' '));
    EXPECT_THAT(Unsupported(text), HasSubstr(mnemonic)) << text;
  }
}

}  // namespace
}  // namespace cupel::emu
