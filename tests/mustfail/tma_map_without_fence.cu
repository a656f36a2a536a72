// exploit: 1.9 device work that is right by luck: a copy may use an old version of its tensor map
// task: row_sum
// device: emu
// expect: rejected missing_proxy_fence
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cstdint>

constexpr int kColumns = 512, kBox = 256, kMapBytes = 128;

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Fills in a map of zeros: a matrix of float32, of which a copy loads kBox elements of a row.
__device__ void MakeMap(void* map, const float* x, int rows) {
  const uint32_t at = Shared(map);
#define REPLACE(field, type, constraint, ordinal, value)                                    \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " ordinal \
               "%1;" ::"r"(at),                                                             \
               constraint(value)                                                            \
               : "memory")
  REPLACE("global_address", "b64", "l", "", x);
  REPLACE("rank", "b32", "n", "", 1);
  REPLACE("box_dim", "b32", "r", "0, ", kBox);
  REPLACE("box_dim", "b32", "r", "1, ", 1);
  REPLACE("global_dim", "b32", "r", "0, ", kColumns);
  REPLACE("global_dim", "b32", "r", "1, ", rows);
  REPLACE("global_stride", "b64", "l", "0, ", kColumns * sizeof(float));
  REPLACE("element_stride", "b32", "r", "0, ", 1);
  REPLACE("element_stride", "b32", "r", "1, ", 1);
  REPLACE("elemtype", "b32", "n", "", 7);
  REPLACE("interleave_layout", "b32", "n", "", 0);
  REPLACE("swizzle_mode", "b32", "n", "", 0);
  REPLACE("fill_mode", "b32", "n", "", 0);
}

// The warp copies the map to global memory, for the tensormap proxy.
__device__ void Publish(void* to, const void* map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(__cvta_generic_to_global(to)),
      "r"(Shared(map))
      : "memory");
}

__global__ void RowSum(const float* x, float* y, float* maps, int rows) {
  __shared__ __align__(128) uint32_t map[kMapBytes / 4];
  __shared__ __align__(128) float row[kColumns];
  __shared__ uint64_t arrived;
  float* own = maps + blockIdx.x * (kMapBytes / 4);
  map[threadIdx.x] = 0;
  __syncwarp();
  if (threadIdx.x == 0) {
    MakeMap(map, x, rows);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(
        Shared(&arrived)));
  }
  __syncwarp();
  Publish(own, map);
  for (int r = blockIdx.x, parity = 0; r < rows; r += gridDim.x, parity ^= 1) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(&arrived)),
                   "n"(kColumns * 4)
                   : "memory");
      for (int column = 0; column < kColumns; column += kBox) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
            "[%1, {%2, %3}], [%4];" ::"r"(Shared(row + column)),
            "l"(own), "r"(column), "r"(r), "r"(Shared(&arrived))
            : "memory");
      }
    }
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(
            Shared(&arrived)),
        "r"(parity)
        : "memory");
    float sum = 0;
    for (int c = threadIdx.x; c < kColumns; c += 32) sum += row[c];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x == 0) y[r] = sum;
    __syncwarp();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.size(1) == kColumns, "made for rows of 512");
  constexpr int kBlocks = 16;
  auto y = torch::empty({x.size(0)}, x.options());
  auto maps = torch::empty({kBlocks * kMapBytes / 4}, x.options());
  RowSum<<<kBlocks, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), maps.data_ptr<float>(),
                          (int)x.size(0));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
