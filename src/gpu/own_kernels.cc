// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/own_kernels.h"

#include <fmt/format.h>

namespace cupel::gpu {
namespace {

/// Sets %i to the thread's first byte and %step to the bytes that the grid processes per iteration.
constexpr const char* kGridStride = R"(
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %i, %r1, %r2; cvt.u64.u32 %t, %r3; add.u64 %i, %i, %t; shl.b64 %i, %i, 4;
  mul.wide.u32 %step, %r4, %r2; shl.b64 %step, %step, 4;
)";

std::string ReadText() {
  std::string mix;
  for (int k = 0; k < 4; ++k) {
    // (word ^ place) * odd, folded, so that a permutation of words changes the sum, too.
    mix += fmt::format(
        "cvt.u32.u64 %r1, %i; add.u32 %r1, %r1, {0}; mul.lo.u32 %r1, %r1, 0x9E3779B1;\n"
        "xor.b32 %r1, %r1, %w{0}; mul.lo.u32 %r2, %r1, 0x85EBCA6B; shr.u32 %r1, %r2, 15;\n"
        "xor.b32 %r1, %r1, %r2; add.u32 %s, %s, %r1;\n",
        k);
  }
  return fmt::format(
      ".visible .entry {}(.param .u64 data, .param .u64 bytes, .param .u64 sum) {{\n"
      ".reg .pred %p; .reg .b32 %r<5>; .reg .b32 %w<4>; .reg .b32 %s;\n"
      ".reg .b64 %i, %t, %step, %from, %n, %to, %a;\n"
      "ld.param.u64 %from, [data]; ld.param.u64 %n, [bytes]; ld.param.u64 %to, [sum];\n"
      "{}mov.u32 %s, 0;\n"
      "LOOP: setp.ge.u64 %p, %i, %n; @%p bra DONE;\n"
      "add.u64 %a, %from, %i; ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%a];\n{}"
      "add.u64 %i, %i, %step; bra LOOP;\n"
      // One addition per warp: one per thread at a single address would take longer than the reads.
      "DONE: bar.warp.sync 0xffffffff; redux.sync.add.u32 %s, %s, 0xffffffff;\n"
      "mov.u32 %r1, %laneid; setp.ne.u32 %p, %r1, 0; @%p ret;\n"
      "cvt.u64.u32 %t, %s; red.global.add.u64 [%to], %t; ret;\n}}\n",
      kReadKernel, kGridStride, mix);
}

/// Each thread has four 16-byte words in flight. So `bytes` must be a multiple of four iterations
/// of the grid.
std::string StreamText() {
  std::string load, store;
  for (int k = 0; k < 4; ++k) {
    load += fmt::format(
        "ld.global.v4.u32 {{%w{0}, %w{1}, %w{2}, %w{3}}}, [%a]; add.u64 %a, %a, %step;\n", 4 * k,
        4 * k + 1, 4 * k + 2, 4 * k + 3);
    store += fmt::format(
        "st.global.v4.u32 [%b], {{%w{0}, %w{1}, %w{2}, %w{3}}}; add.u64 %b, %b, %step;\n", 4 * k,
        4 * k + 1, 4 * k + 2, 4 * k + 3);
  }
  return fmt::format(
      ".visible .entry {}(.param .u64 from, .param .u64 bytes, .param .u64 to) {{\n"
      ".reg .pred %p; .reg .b32 %r<5>; .reg .b32 %w<16>;\n"
      ".reg .b64 %i, %t, %step, %from, %n, %to, %a, %b;\n"
      "ld.param.u64 %from, [from]; ld.param.u64 %n, [bytes]; ld.param.u64 %to, [to];\n{}"
      "LOOP: setp.ge.u64 %p, %i, %n; @%p bra DONE;\n"
      "add.u64 %a, %from, %i; add.u64 %b, %to, %i;\n{}{}"
      "shl.b64 %t, %step, 2; add.u64 %i, %i, %t; bra LOOP;\n"
      "DONE: ret;\n}}\n",
      kStreamKernel, kGridStride, load, store);
}

std::string FmaText() {
  std::string begin, step, end;
  for (int k = 0; k < kFmaChains; ++k) {
    begin += fmt::format("add.f32 %f{}, %x, 0f{:08X};\n", k, 0x3f800000 + k);
    step += fmt::format("fma.rn.f32 %f{0}, %f{0}, %x, %y;\n", k);
    end += fmt::format("add.f32 %x, %x, %f{};\n", k);
  }
  std::string body;
  for (int unrolled = 0; unrolled < kFmaUnrolled; ++unrolled) body += step;
  return fmt::format(
      ".visible .entry {}(.param .u64 out, .param .u32 iterations) {{\n"
      ".reg .pred %p; .reg .b32 %r<3>; .reg .b64 %to; .reg .f32 %x, %y, %f<{}>;\n"
      "ld.param.u64 %to, [out]; ld.param.u32 %r1, [iterations];\n"
      "mov.u32 %r2, %tid.x; cvt.rn.f32.u32 %x, %r2; mul.f32 %x, %x, 0f33000000;\n"
      "mov.f32 %y, 0f3F000000;\n{}"
      "LOOP: setp.eq.u32 %p, %r1, 0; @%p bra DONE;\n{}sub.u32 %r1, %r1, 1; bra LOOP;\n"
      "DONE: {}setp.ne.f32 %p, %x, 0f7F800000; @%p ret;\n"  // never infinite; keeps the chains
      "st.global.f32 [%to], %x; ret;\n}}\n",
      kFmaKernel, kFmaChains, begin, body, end);
}

std::string ScrubText() {
  return fmt::format(
      ".extern .shared .align 16 .b8 cupel_shared[];\n.visible .entry {}() {{\n"
      ".reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %dynamic_smem_size;\n"
      "shl.b32 %r1, %r1, 2; shl.b32 %r2, %r2, 2; mov.u64 %d1, cupel_shared;\n"
      "LOOP: setp.ge.u32 %p, %r1, %r3; @%p ret;\n"
      "cvt.u64.u32 %d2, %r1; add.u64 %d2, %d1, %d2; st.shared.u32 [%d2], 0;\n"
      "add.u32 %r1, %r1, %r2; bra LOOP;\n}}\n",
      kScrubKernel);
}

}  // namespace

std::string OwnKernelsPtx(const std::string& target) {
  return fmt::format(
      ".version 8.0\n.target {}\n.address_size 64\n{}{}{}{}.visible .entry {}() {{ ret; "
      "}}\n",
      target, ReadText(), StreamText(), FmaText(), ScrubText(), kEmptyKernel);
}

}  // namespace cupel::gpu
