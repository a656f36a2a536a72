#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_pipeline.h>
#include <algorithm>
#include <cstdint>

constexpr int kBM = 128;     // pixels of a block; one thread gathers one pixel
constexpr int kBN = 64;      // output channels of a block
constexpr int kThreads = 128;
constexpr int kCC = 1;       // tune: kCC in 1, 2
constexpr int kStages = 3;   // tune: kStages in 2, 3
constexpr int kMinBlocks = 3;  // tune: kMinBlocks in 2, 3, 4
constexpr int kBK = kCC * 9;

static_assert(kBM == kThreads, "one pixel a thread");

// [O][C][9] -> [tileO][C padded to kCC][9][kBN], zeros in the padding
__global__ void transpose_weights(const float* __restrict__ w, float* __restrict__ wt,
                                  int64_t C, int64_t O, int64_t rows, int64_t total) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t o = (i / kBN / rows) * kBN + i % kBN;
    const int64_t k = (i / kBN) % rows;  // c * 9 + tap
    float v = 0.0f;
    if (o < O && k < C * 9) v = w[o * C * 9 + k];
    wt[i] = v;
  }
}

__global__ void __launch_bounds__(kThreads, kMinBlocks)
conv3x3_kernel(const float* __restrict__ x, const float* __restrict__ wt,
               const float* __restrict__ bias, float* __restrict__ out,
               int64_t C, int64_t H, int64_t W, int64_t O, int64_t P,
               int64_t tilesO, int64_t chunks, int64_t total) {
  __shared__ __align__(16) float sA[kStages][kBK][kBM];
  __shared__ __align__(16) float sB[kStages][kBK][kBN];

  const int tid = threadIdx.x;
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int pm = (warp & 1) * 64 + (lane % 8) * 4;   // pixels pm + {0..3}, pm + 32 + {0..3}
  const int pn = (warp >> 1) * 32 + (lane / 8) * 4;  // channels pn + {0..3}, pn + 16 + {0..3}
  const int64_t HW = H * W;

  for (int64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const int64_t tileO = item % tilesO;
    const int64_t p0 = (item / tilesO) * kBM;
    const float* wtile = wt + tileO * chunks * (kBK * kBN);

    // the pixel that this thread gathers
    int64_t base = 0;
    unsigned mask = 0;
    {
      const int64_t p = p0 + tid;
      if (p < P) {
        const int64_t n = p / HW;
        const int64_t r = p - n * HW;
        const int64_t py = r / W;
        const int64_t px = r - py * W;
        base = n * C * HW + r;
#pragma unroll
        for (int t = 0; t < 9; ++t) {
          const int64_t yy = py + t / 3 - 1;
          const int64_t xx = px + t % 3 - 1;
          if (yy >= 0 && yy < H && xx >= 0 && xx < W) mask |= 1u << t;
        }
      }
    }

    auto load = [&](int64_t chunk, int stage) {
#pragma unroll
      for (int c = 0; c < kCC; ++c) {
        const int64_t gc = chunk * kCC + c;
        const bool inside = gc < C;
        const int64_t off = base + gc * HW;
#pragma unroll
        for (int t = 0; t < 9; ++t) {
          const bool ok = inside && ((mask >> t) & 1u);
          const int64_t at = ok ? off + (t / 3 - 1) * W + (t % 3 - 1) : int64_t(0);
          __pipeline_memcpy_async(&sA[stage][c * 9 + t][tid], x + at, 4, ok ? 0 : 4);
        }
      }
      const float* src = wtile + chunk * (kBK * kBN);
      float* dst = &sB[stage][0][0];
      for (int i = tid; i < kBK * kBN / 4; i += kThreads) {
        __pipeline_memcpy_async(dst + i * 4, src + i * 4, 16);
      }
    };

    float acc[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[i][j] = 0.0f;
    }

#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < chunks) load(s, s);
      __pipeline_commit();
    }

    int stage = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();  // chunk has arrived; the stage filled next has been used by all
      {
        int next = stage + kStages - 1;
        if (next >= kStages) next -= kStages;
        if (chunk + kStages - 1 < chunks) load(chunk + kStages - 1, next);
        __pipeline_commit();
      }
#pragma unroll 9
      for (int k = 0; k < kBK; ++k) {
        const float4 a0 = *reinterpret_cast<const float4*>(&sA[stage][k][pm]);
        const float4 a1 = *reinterpret_cast<const float4*>(&sA[stage][k][pm + 32]);
        const float4 b0 = *reinterpret_cast<const float4*>(&sB[stage][k][pn]);
        const float4 b1 = *reinterpret_cast<const float4*>(&sB[stage][k][pn + 16]);
        const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
      }
      if (++stage == kStages) stage = 0;
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // before the next item overwrites shared memory

    const bool vec = HW % 4 == 0;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const int64_t p = p0 + pm + g * 32;
      if (p >= P) continue;
      if (vec) {
        // P is a multiple of 4 too: the four pixels lie in one image, aligned
        const int64_t n = p / HW;
        float* o0 = out + n * O * HW + (p - n * HW);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int64_t go = tileO * kBN + pn + (j / 4) * 16 + j % 4;
          if (go < O) {
            const float b = bias[go];
            *reinterpret_cast<float4*>(o0 + go * HW) =
                make_float4(acc[g * 4 + 0][j] + b, acc[g * 4 + 1][j] + b,
                            acc[g * 4 + 2][j] + b, acc[g * 4 + 3][j] + b);
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (p + i < P) {
            const int64_t n = (p + i) / HW;
            float* o0 = out + n * O * HW + (p + i - n * HW);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
              const int64_t go = tileO * kBN + pn + (j / 4) * 16 + j % 4;
              if (go < O) o0[go * HW] = acc[g * 4 + i][j] + bias[go];
            }
          }
        }
      }
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor conv_weight, torch::Tensor conv_bias) {
  TORCH_CHECK(x.is_cuda() && conv_weight.is_cuda() && conv_bias.is_cuda(),
              "all arguments must be on the GPU");
  TORCH_CHECK(x.device() == conv_weight.device() && x.device() == conv_bias.device(),
              "all arguments must be on the same device");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 &&
              conv_weight.scalar_type() == torch::kFloat32 &&
              conv_bias.scalar_type() == torch::kFloat32, "float32 expected");
  TORCH_CHECK(x.dim() == 4, "x must have 4 dimensions");
  TORCH_CHECK(conv_weight.dim() == 4, "conv_weight must have 4 dimensions");
  TORCH_CHECK(conv_bias.dim() == 1, "conv_bias must have 1 dimension");
  TORCH_CHECK(conv_weight.size(1) == x.size(1), "in_channels differ");
  TORCH_CHECK(conv_weight.size(2) == 3 && conv_weight.size(3) == 3, "3x3 weights expected");
  TORCH_CHECK(conv_bias.size(0) == conv_weight.size(0), "out_channels differ");

  const c10::cuda::CUDAGuard guard(x.device());
  const torch::Tensor xc = x.contiguous();
  const torch::Tensor wc = conv_weight.contiguous();
  const torch::Tensor bc = conv_bias.contiguous();

  const int64_t N = xc.size(0), C = xc.size(1), H = xc.size(2), W = xc.size(3);
  const int64_t O = wc.size(0);
  torch::Tensor out = torch::empty({N, O, H, W}, xc.options());
  if (out.numel() == 0) return out;

  const int64_t P = N * H * W;
  const int64_t tilesO = (O + kBN - 1) / kBN;
  const int64_t chunks = (C + kCC - 1) / kCC;
  const int64_t tilesP = (P + kBM - 1) / kBM;
  const int64_t total = tilesP * tilesO;
  const int64_t limit = int64_t(1) << 30;
  const auto stream = at::cuda::getCurrentCUDAStream();

  torch::Tensor wt = torch::empty({tilesO * chunks * kBK * kBN}, xc.options());
  const int64_t elements = wt.numel();
  if (elements > 0) {
    const unsigned blocks =
        static_cast<unsigned>(std::min<int64_t>((elements + 255) / 256, int64_t(1) << 20));
    transpose_weights<<<blocks, 256, 0, stream>>>(
        wc.data_ptr<float>(), wt.data_ptr<float>(), C, O, chunks * kBK, elements);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  const unsigned blocks = static_cast<unsigned>(std::min(total, limit));
  conv3x3_kernel<<<blocks, kThreads, 0, stream>>>(
      xc.data_ptr<float>(), wt.data_ptr<float>(), bc.data_ptr<float>(), out.data_ptr<float>(),
      C, H, W, O, P, tilesO, chunks, total);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
