import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <algorithm>
#include <cstdint>

constexpr int STAGES = 4;
constexpr int A_BYTES = 128 * 128;
constexpr int B_BYTES = 256 * 128;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SMEM_BYTES = STAGES * STAGE_BYTES + 1024;
constexpr int THREADS = 384;

__device__ __forceinline__ void bar_init(uint32_t bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_expect(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bar_wait(uint32_t bar, uint32_t parity) {
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    }
}
// arrives at the barrier with the same offset in block `cta` of the cluster
__device__ __forceinline__ void bar_arrive_at(uint32_t bar, uint32_t cta) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}\n" :: "r"(bar), "r"(cta) : "memory");
}
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}
__device__ __forceinline__ void tma_load(uint32_t dst, const CUtensorMap* map, uint32_t bar,
                                         int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4}], [%2];\n"
        :: "r"(dst), "l"(reinterpret_cast<uint64_t>(map)), "r"(bar), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void tma_load_both(uint32_t dst, const CUtensorMap* map, uint32_t bar,
                                              int c0, int c1) {
    const uint16_t mask = 3;
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;\n"
        :: "r"(dst), "l"(reinterpret_cast<uint64_t>(map)), "r"(bar), "h"(mask), "r"(c0), "r"(c1)
        : "memory");
}
// K-major, rows of 128 bytes, 128-byte swizzle, 1024 bytes for 8 rows
__device__ __forceinline__ uint64_t make_desc(uint32_t address) {
    return (uint64_t)((address & 0x3FFFFu) >> 4) | ((uint64_t)1 << 16) | ((uint64_t)64 << 32) |
           ((uint64_t)1 << 62);
}

#define F8(i) "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), \
              "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])

__device__ __forceinline__ void wgmma_128(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1;\n"
        "}\n"
        : F8(0), F8(8), F8(16), F8(24), F8(32), F8(40), F8(48), F8(56)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void hold(float (&d)[64]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

__device__ __forceinline__ void tile_of(int t, int mt, int nt, int& tm, int& tn) {
    const int band = t / (8 * nt);
    const int high = min(8, mt - band * 8);
    const int rest = t - band * 8 * nt;
    tm = band * 8 + rest % high;
    tn = rest / high;
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
fp8_gemm_kernel(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
                const float* __restrict__ xs, const float* __restrict__ ws,
                __nv_bfloat16* __restrict__ out, int M, int N, int nk, int mt, int nt) {
    extern __shared__ uint8_t raw[];
    __shared__ __align__(8) uint64_t bars[2 * STAGES];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(raw) + 1023u) & ~1023u;
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(bars);
    const uint32_t empty = full + 8 * STAGES;
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            bar_init(full + 8 * s, 1);
            bar_init(empty + 8 * s, 16);   // 8 consumer warps of each of the two blocks
        }
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    __syncthreads();
    cluster_barrier();

    const int tiles = mt * nt;
    const int clusters = (int)gridDim.x / 2;
    const int wg = threadIdx.x / 128;

    if (wg == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
        if (threadIdx.x == 0) {
            int stage = 0;
            uint32_t phase = 0;
            for (int t = (int)blockIdx.x / 2; t < tiles; t += clusters) {
                int tm, tn;
                tile_of(t, mt, nt, tm, tn);
                const int row = tm * 256 + (int)rank * 128;
                const int col = tn * 256 + (int)rank * 128;
                for (int i = 0; i < nk; ++i) {
                    bar_wait(empty + 8 * stage, phase ^ 1u);
                    const uint32_t bar = full + 8 * stage;
                    const uint32_t a = base + stage * STAGE_BYTES;
                    bar_expect(bar, STAGE_BYTES);
                    tma_load(a, &map_x, bar, i * 128, row);
                    tma_load_both(a + A_BYTES + rank * (B_BYTES / 2), &map_w, bar, i * 128, col);
                    if (++stage == STAGES) { stage = 0; phase ^= 1u; }
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
        const int lane = threadIdx.x & 31;
        const int warp = (threadIdx.x & 127) >> 5;
        const int q = lane & 3;
        const bool vec = (N & 7) == 0;
        float sum[128];
        float d[64];
#pragma unroll
        for (int i = 0; i < 64; ++i) d[i] = 0.0f;
        int stage = 0;
        uint32_t phase = 0;
        for (int t = (int)blockIdx.x / 2; t < tiles; t += clusters) {
            int tm, tn;
            tile_of(t, mt, nt, tm, tn);
            const int row0 = tm * 256 + (int)rank * 128 + (wg - 1) * 64 + warp * 16 + (lane >> 2);
            const int row1 = row0 + 8;
            const bool in0 = row0 < M, in1 = row1 < M;
            const float xs0 = in0 ? xs[row0] : 0.0f;
            const float xs1 = in1 ? xs[row1] : 0.0f;
#pragma unroll
            for (int i = 0; i < 128; ++i) sum[i] = 0.0f;

            for (int it = 0; it < nk; ++it) {
                bar_wait(full + 8 * stage, phase);
                const uint32_t a = base + stage * STAGE_BYTES;
                const uint64_t da = make_desc(a + (wg - 1) * (A_BYTES / 2));
                const uint64_t db = make_desc(a + A_BYTES);
#pragma unroll
                for (int nb = 0; nb < 2; ++nb) {
                    hold(d);
                    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        wgmma_128(d, da + 2 * k, db + nb * (B_BYTES / 2 / 16) + 2 * k, k == 0 ? 0 : 1);
                    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
                    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
                    hold(d);
                    if (nb == 1) {
                        // both halves are read: give the stage back to both blocks
                        if (lane < 2) bar_arrive_at(empty + 8 * stage, (uint32_t)lane);
                        __syncwarp();
                    }
#pragma unroll
                    for (int i = 0; i < 64; ++i) sum[nb * 64 + i] += d[i];
                }
                if (++stage == STAGES) { stage = 0; phase ^= 1u; }
            }

            __nv_bfloat16* y0 = out + (long long)row0 * N;
            __nv_bfloat16* y1 = y0 + (long long)8 * N;
            const int col0 = tn * 256;
            if (vec) {
#pragma unroll
                for (int g = 0; g < 8; ++g) {   // 32 columns
                    uint32_t u[2][4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int j = g * 4 + i;
                        const int c = col0 + j * 8 + q * 2;
                        float w0 = 0.0f, w1 = 0.0f;
                        if (c < N) { w0 = ws[c]; w1 = ws[c + 1]; }   // N is even
                        const __nv_bfloat162 p0 = __floats2bfloat162_rn(
                            sum[j * 4 + 0] * xs0 * w0, sum[j * 4 + 1] * xs0 * w1);
                        const __nv_bfloat162 p1 = __floats2bfloat162_rn(
                            sum[j * 4 + 2] * xs1 * w0, sum[j * 4 + 3] * xs1 * w1);
                        u[0][i] = *reinterpret_cast<const uint32_t*>(&p0);
                        u[1][i] = *reinterpret_cast<const uint32_t*>(&p1);
                    }
                    // 4 x 4 transpose in the quad: lane q gets the 8 columns of j = 4 g + q
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
#pragma unroll
                        for (int m = 1; m < 4; m <<= 1) {
                            const bool up = (q & m) != 0;
#pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                if ((i & m) == 0) {
                                    const uint32_t send = up ? u[h][i] : u[h][i | m];
                                    const uint32_t got = __shfl_xor_sync(0xffffffffu, send, m);
                                    u[h][i] = up ? got : u[h][i];
                                    u[h][i | m] = up ? u[h][i | m] : got;
                                }
                            }
                        }
                    }
                    const int c = col0 + g * 32 + q * 8;
                    if (c < N) {
                        if (in0) *reinterpret_cast<uint4*>(y0 + c) = make_uint4(u[0][0], u[0][1], u[0][2], u[0][3]);
                        if (in1) *reinterpret_cast<uint4*>(y1 + c) = make_uint4(u[1][0], u[1][1], u[1][2], u[1][3]);
                    }
                }
            } else {
#pragma unroll
                for (int j = 0; j < 32; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        const int c = col0 + j * 8 + q * 2 + e;
                        if (c < N) {
                            const float wv = ws[c];
                            if (in0) y0[c] = __float2bfloat16(sum[j * 4 + e] * xs0 * wv);
                            if (in1) y1[c] = __float2bfloat16(sum[j * 4 + 2 + e] * xs1 * wv);
                        }
                    }
                }
            }
        }
    }
    __syncwarp();
    cluster_barrier();   // the other block may still arrive at the barriers here
}

static CUtensorMap make_map(void* p, int64_t rows, int64_t width) {
    CUtensorMap map;
    const cuuint64_t dims[2] = {(cuuint64_t)width, (cuuint64_t)rows};
    const cuuint64_t strides[1] = {(cuuint64_t)width};
    const cuuint32_t box[2] = {128, 128};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult r = cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, p, dims, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(r == CUDA_SUCCESS, "cuTensorMapEncodeTiled failed");
    return map;
}

torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor x_scale, torch::Tensor w, torch::Tensor w_scale) {
    TORCH_CHECK(x.is_cuda() && w.is_cuda() && x_scale.is_cuda() && w_scale.is_cuda(), "CUDA tensors expected");
    TORCH_CHECK(x.scalar_type() == torch::kFloat8_e4m3fn && w.scalar_type() == torch::kFloat8_e4m3fn,
                "float8_e4m3fn expected");
    TORCH_CHECK(x_scale.scalar_type() == torch::kFloat32 && w_scale.scalar_type() == torch::kFloat32,
                "float32 scales expected");
    TORCH_CHECK(x.dim() == 2 && w.dim() == 2, "matrices expected");
    const int64_t M = x.size(0), K = x.size(1), N = w.size(0);
    TORCH_CHECK(w.size(1) == K && x_scale.numel() == M && w_scale.numel() == N, "sizes differ");
    TORCH_CHECK(K > 0 && K % 16 == 0, "K must be a multiple of 16");
    TORCH_CHECK(M < 2147483000LL && N < 2147483000LL && K < 2147483000LL, "too large");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    w = w.contiguous();
    x_scale = x_scale.contiguous();
    w_scale = w_scale.contiguous();
    if (reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 != 0) x = x.clone();
    if (reinterpret_cast<uintptr_t>(w.data_ptr()) % 16 != 0) w = w.clone();
    torch::Tensor out = torch::empty({M, N}, torch::TensorOptions().dtype(torch::kBFloat16).device(x.device()));
    if (M == 0 || N == 0) return out;

    const int64_t mt = (M + 255) / 256, nt = (N + 255) / 256;
    TORCH_CHECK(mt * nt < 2000000000LL && 8 * nt < 2000000000LL, "too large");
    const CUtensorMap map_x = make_map(x.data_ptr(), M, K);
    const CUtensorMap map_w = make_map(w.data_ptr(), N, K);
    const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int64_t clusters = std::min<int64_t>(mt * nt, std::max<int64_t>(sms / 2, 1));
    C10_CUDA_CHECK(cudaFuncSetAttribute(fp8_gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        SMEM_BYTES));
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    fp8_gemm_kernel<<<(unsigned)(2 * clusters), THREADS, SMEM_BYTES, stream>>>(
        map_x, map_w, x_scale.data_ptr<float>(), w_scale.data_ptr<float>(),
        reinterpret_cast<__nv_bfloat16*>(out.data_ptr<at::BFloat16>()),
        (int)M, (int)N, (int)((K + 127) / 128), (int)mt, (int)nt);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = r"""
#include <torch/extension.h>
torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor x_scale, torch::Tensor w, torch::Tensor w_scale);
"""

fp8_gemm_ext = load_inline(
    name="fp8_gemm_cluster_wgmma_promotion",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["fp8_gemm"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
    verbose=False,
)


@triton.jit
def _fp8_gemm_kernel(x_ptr, xs_ptr, w_ptr, ws_ptr, out_ptr,
                     M, N, K, tiles_m, tiles_n, tiles_k,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                     NATIVE: tl.constexpr):
    pid = tl.program_id(0)
    per_group = GROUP_M * tiles_n
    group = pid // per_group
    first_m = group * GROUP_M
    rows_in_group = tl.minimum(tiles_m - first_m, GROUP_M)
    in_group = pid % per_group
    pid_m = first_m + in_group % rows_in_group
    pid_n = in_group // rows_in_group

    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    mask_m = offs_m < M
    mask_n = offs_n < N

    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_n[None, :] * K + offs_k[:, None]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for kt in range(0, tiles_k):
        mask_k = offs_k < K - kt * BLOCK_K
        a = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        b = tl.load(w_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        if NATIVE:
            # a fresh sum of BLOCK_K products, then a float32 add
            acc += tl.dot(a, b)
        else:
            # e4m3 -> float16 is exact
            acc = tl.dot(a.to(tl.float16), b.to(tl.float16), acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K

    xs = tl.load(xs_ptr + offs_m, mask=mask_m, other=0.0)
    ws = tl.load(ws_ptr + offs_n, mask=mask_n, other=0.0)
    y = acc * xs[:, None] * ws[None, :]

    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, y.to(tl.bfloat16), mask=mask_m[:, None] & mask_n[None, :])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, x_scale, w, w_scale):
        x = x.contiguous()
        w = w.contiguous()
        x_scale = x_scale.contiguous()
        w_scale = w_scale.contiguous()
        M = x.shape[0]
        K = x.shape[1]
        N = w.shape[0]

        # pairs of 128 x 256 tiles; enough of them to fill most of the GPU
        pairs = ((M + 255) // 256) * ((N + 255) // 256)
        if K >= 128 and K % 16 == 0 and M > 128 and N > 128 and pairs >= 40:
            return fp8_gemm_ext.fp8_gemm(x, x_scale, w, w_scale)

        out = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        if M == 0 or N == 0:
            return out

        if M <= 16:
            block_m, block_n, block_k, warps, stages = 16, 64, 128, 4, 4
        elif M <= 64 or N <= 64 or ((M + 127) // 128) * ((N + 127) // 128) < 132:
            block_m, block_n, block_k, warps, stages = 64, 64, 128, 4, 4
        else:
            block_m, block_n, block_k, warps, stages = 128, 128, 128, 8, 4

        tiles_m = (M + block_m - 1) // block_m
        tiles_n = (N + block_n - 1) // block_n
        tiles_k = (K + block_k - 1) // block_k
        _fp8_gemm_kernel[(tiles_m * tiles_n,)](
            x, x_scale, w, w_scale, out,
            M, N, K, tiles_m, tiles_n, tiles_k,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
            NATIVE=(block_m >= 64),
            num_warps=warps, num_stages=stages,
        )
        return out
