// y = silu(gate) * up, four elements per thread.
// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void silu_mul(const float4* __restrict__ gate, const float4* __restrict__ up,
                                    float4* __restrict__ y, int quads) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 g = gate[i];
  const float4 u = up[i];
  y[i] = make_float4(g.x / (1.0f + __expf(-g.x)) * u.x, g.y / (1.0f + __expf(-g.y)) * u.y,
                     g.z / (1.0f + __expf(-g.z)) * u.z, g.w / (1.0f + __expf(-g.w)) * u.w);
}
