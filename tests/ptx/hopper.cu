// SPDX-License-Identifier: Apache-2.0
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    Hopper(const __grid_constant__ TensorMap map, unsigned long long a, unsigned long long b,
           float* out) {
  __shared__ alignas(1024) float tile[64 * 64];
  __shared__ unsigned long long barrier;
  const unsigned bar = __cvta_generic_to_shared(&barrier);
  const unsigned dst = __cvta_generic_to_shared(tile);
  float d[4] = {out[0], out[1], out[2], out[3]};
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(128));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(16384));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
      "l"(&map), "r"(3), "r"(4), "r"(bar));
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(bar),
      "r"(0));
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, -1, 0, "
      "1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;");
  unsigned elected;
  asm volatile("{ .reg .pred P1; elect.sync _|P1, 0xffffffff; selp.b32 %0, 1, 0, P1; }"
               : "=r"(elected));
  out[threadIdx.x] = d[0] + tile[threadIdx.x] + elected;
}
