// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void Scopes(int* out, int n) {
  int value = out[threadIdx.x];
  asm volatile(
      "{\n .reg .pred p;\n .reg .b32 t<3>;\n setp.gt.s32 p, %0, 100;\n"
      "AGAIN:\n @p bra DONE;\n add.s32 t0, %0, 1;\n mov.b32 t1, t0;\n"
      "{ .reg .b32 t1; mov.b32 t1, 7; add.s32 %0, t0, t1; }\n"
      " setp.gt.s32 p, %0, t1;\n bra AGAIN;\nDONE:\n}"
      : "+r"(value));
  asm volatile(
      "{ .reg .pred p; .reg .b32 t; setp.eq.s32 p, %1, 0; @!p bra DONE; mov.b32 t, %%laneid; "
      "add.s32 %0, %0, t; DONE: }"
      : "+r"(value)
      : "r"(n));
  asm volatile(
      "{ .reg .b32 q; mov.b32 q, WARP_SZ; ts: .branchtargets A, B, A; brx.idx %1, ts; "
      "A: add.s32 q, %1, -3; B: xor.b32 %0, q, 0b101; xor.b32 %0, %0, 017; xor.b32 %0, %0, 0xFFU; }"
      : "+r"(value)
      : "r"(n));
  out[threadIdx.x] = value;
}
