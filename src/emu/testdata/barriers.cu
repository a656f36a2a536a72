// Kernels that wait for mbarriers; barriers.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90 -O3 -std=c++17 barriers.cu
// SPDX-License-Identifier: Apache-2.0
#pragma nv_diag_suppress static_var_with_dynamic_init  // init() is called
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" {

/// Reverses 128 values several times, with a barrier object instead of __syncthreads.
__global__ void reverse(const int* in, int* out, int times) {
  __shared__ Barrier barrier;
  __shared__ int values[2][128];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  values[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int i = 0; i < times; ++i) {
    values[(i + 1) % 2][127 - threadIdx.x] = values[i % 2][threadIdx.x];
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
  }
  out[threadIdx.x] = values[times % 2][threadIdx.x];
}

/// Half of the block produces, half consumes, through two buffers.
__global__ void producers(const int* in, int* out, int rounds) {
  __shared__ Barrier full[2], empty[2];
  __shared__ int buffer[2][64];
  if (threadIdx.x < 2) {
    init(&full[threadIdx.x], blockDim.x);
    init(&empty[threadIdx.x], blockDim.x);
  }
  __syncthreads();
  const bool produces = threadIdx.x >= 64;
  const int i = threadIdx.x % 64;
  if (produces) {
    for (int r = 0; r < rounds; ++r) {
      empty[r % 2].arrive_and_wait();
      buffer[r % 2][i] = in[r * 64 + i];
      (void)full[r % 2].arrive();
    }
  } else {
    (void)empty[0].arrive();
    (void)empty[1].arrive();
    for (int r = 0; r < rounds; ++r) {
      full[r % 2].arrive_and_wait();
      out[r * 64 + i] = buffer[r % 2][63 - i] * 2;
      (void)empty[r % 2].arrive();
    }
  }
}

/// One thread copies in bulk and out again.
__global__ void bulk(const int* in, int* out, int forget) {
  __shared__ alignas(128) int values[256];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_global_to_shared(values, in + blockIdx.x * 256,
                                                               sizeof values, barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof values);
  } else {
    token = barrier.arrive();
  }
  if (!forget) barrier.wait(std::move(token));
  values[threadIdx.x] += 1;
  cuda::device::experimental::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_shared_to_global(out + blockIdx.x * 256, values,
                                                               sizeof values);
    cuda::device::experimental::cp_async_bulk_commit_group();
    cuda::device::experimental::cp_async_bulk_wait_group_read<0>();
  }
}

/// The pipeline of libcu++ for a whole block.
__global__ void pipeline(const int4* in, int4* out, int rounds) {
  __shared__ int4 values[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  auto load = [&](int r) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, values[r % 2], in + r * 128,
                       cuda::aligned_size_t<16>(sizeof(int4) * 128), pipe);
    pipe.producer_commit();
  };
  load(0);
  for (int r = 0; r < rounds; ++r) {
    if (r + 1 < rounds) load(r + 1);
    pipe.consumer_wait();
    block.sync();
    out[r * 128 + threadIdx.x] = values[r % 2][127 - threadIdx.x];
    block.sync();
    pipe.consumer_release();
  }
}

/// Waits for a phase that no thread completes.
__global__ void stuck(int* out) {
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x + 1);
  __syncthreads();
  barrier.arrive_and_wait();
  out[threadIdx.x] = 1;
}

}  // extern "C"
