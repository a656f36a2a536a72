// Kernels and plans for several tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>

#include "plan/plan.h"

namespace cupel::gpu {

inline constexpr const char* kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";
// y[i] = x[i] + 1 for i < n, and kernels for the tests of failures.
inline constexpr const char* kKernels = R"(
.visible .global .align 4 .u32 counter;
.visible .entry add_one(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<6>; .reg .f32 %f;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4; setp.ge.u32 %p, %r2, %r1; @%p ret;
  mul.wide.u32 %d3, %r2, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
  ld.global.f32 %f, [%d1]; add.f32 %f, %f, 0f3F800000; st.global.f32 [%d2], %f; ret;
}
.visible .entry for_ever(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [y];
L: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p, %r1, 12345; @%p bra L; ret;
}
.visible .entry date(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [y]; mov.u64 %d2, %globaltimer; st.global.u64 [%d1], %d2; ret;
}
.visible .entry whereabouts(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .b32 %r; .reg .b64 %d<4>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mov.u32 %r, %smid; cvt.u64.u32 %d3, %r;
  st.global.u64 [%d2], %d1; st.global.u64 [%d2+8], %d2; st.global.u64 [%d2+16], %d3; ret;
}
.visible .entry busy(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r, %n; .reg .f32 %f; .reg .b64 %d;
  mov.u32 %r, 0; mov.f32 %f, 0f3F800000; ld.param.u32 %n, [n];
L: fma.rn.f32 %f, %f, %f, %f; add.u32 %r, %r, 1; setp.lt.u32 %p, %r, %n; @%p bra L;
  setp.eq.f32 %p, %f, 0f00000000; ld.param.u64 %d, [y]; @%p st.global.f32 [%d], %f; ret;
}
.visible .entry hide(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .b32 %r; .reg .b64 %d<3>;
  ld.param.u32 %r, [n]; ld.param.u64 %d1, [y]; cvt.u64.u32 %d2, %r; add.u64 %d1, %d1, %d2;
  st.global.u32 [%d1], 1; ret;
}
.visible .entry nowhere(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .b64 %d<3>; .reg .f32 %f;
  mov.u64 %d1, 64; ld.global.f32 %f, [%d1]; ld.param.u64 %d2, [y]; st.global.f32 [%d2], %f; ret;
}
)";

/// A plan that launches `kernel` with x and y of 100 floats each, and with n.
inline plan::Plan Launching(const char* kernel, uint32_t n = 100) {
  plan::Plan plan;
  plan.buffers = {{plan::BufferKind::kArgument, 400, 0, {}},
                  {plan::BufferKind::kTemporary, 400, -1, {}}};
  plan::Launch launch;
  launch.kernel = kernel;
  launch.grid = {4, 1, 1};
  launch.block = {64, 1, 1};
  launch.parameters = std::string(20, '\0');
  std::memcpy(launch.parameters.data() + 16, &n, 4);
  launch.relocations = {{0, {0, 0}}, {8, {1, 0}}};
  plan.nodes.push_back({launch, {}});
  plan.outputs = {{{1, 0}, DType::kF32, {100}, {1}}};
  plan.function = "forward";
  return plan;
}

}  // namespace cupel::gpu
