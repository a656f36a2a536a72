import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    TensorDescriptor = None


@triton.jit
def _fp8_gemm_kernel(x_ptr, xs_ptr, w_ptr, ws_ptr, out_ptr,
                     M, N, K, tiles_m, tiles_n, tiles_k,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                     EVEN_K: tl.constexpr):
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
    # rows beyond the end read the last row; their results are not stored
    rows_m = tl.minimum(offs_m, M - 1)
    rows_n = tl.minimum(offs_n, N - 1)

    x_ptrs = x_ptr + rows_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + rows_n[None, :] * K + offs_k[:, None]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for kt in range(0, tiles_k):
        if EVEN_K:
            a = tl.load(x_ptrs)
            b = tl.load(w_ptrs)
        else:
            mask_k = offs_k < K - kt * BLOCK_K
            a = tl.load(x_ptrs, mask=mask_k[None, :], other=0.0)
            b = tl.load(w_ptrs, mask=mask_k[:, None], other=0.0)
        if BLOCK_M >= 64:
            # float8 WGMMA into a fresh partial sum, then added in float32
            acc += tl.dot(a, b)
        else:
            # e4m3 -> float16 is exact
            acc = tl.dot(a.to(tl.float16), b.to(tl.float16), acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K

    mask_m = offs_m < M
    mask_n = offs_n < N
    xs = tl.load(xs_ptr + offs_m, mask=mask_m, other=0.0)
    ws = tl.load(ws_ptr + offs_n, mask=mask_n, other=0.0)
    y = acc * xs[:, None] * ws[None, :]
    out_ptrs = out_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out_ptrs, y.to(tl.bfloat16), mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def _fp8_gemm_tma_kernel(x_desc, xs_ptr, w_desc, ws_ptr, out_ptr,
                         M, N, tiles_m, tiles_n, tiles_k,
                         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                         BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(0)
    per_group = GROUP_M * tiles_n
    group = pid // per_group
    first_m = group * GROUP_M
    rows_in_group = tl.minimum(tiles_m - first_m, GROUP_M)
    in_group = pid % per_group
    pid_m = first_m + in_group % rows_in_group
    pid_n = in_group // rows_in_group
    row_m = pid_m * BLOCK_M
    row_n = pid_n * BLOCK_N

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for kt in range(0, tiles_k):
        # the TMA unit fills with zeros what lies outside of the matrices
        a = x_desc.load([row_m, kt * BLOCK_K])
        b = w_desc.load([row_n, kt * BLOCK_K])
        # a fresh partial sum for each slice of K, added in float32
        acc += tl.dot(a, b.T)

    offs_m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = offs_m < M
    mask_n = offs_n < N
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
        out = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        if M == 0 or N == 0:
            return out

        limit = 2**31 - 1024
        if (TensorDescriptor is not None and M > 64 and N > 64 and K >= 128 and K % 16 == 0
                and M < limit and N < limit and K < limit
                and x.storage_offset() % 16 == 0 and w.storage_offset() % 16 == 0
                and ((M + 127) // 128) * ((N + 127) // 128) >= 128):
            block_m, block_n, block_k = 128, 128, 128
            tiles_m = (M + block_m - 1) // block_m
            tiles_n = (N + block_n - 1) // block_n
            tiles_k = (K + block_k - 1) // block_k
            x_desc = TensorDescriptor.from_tensor(x, [block_m, block_k])
            w_desc = TensorDescriptor.from_tensor(w, [block_n, block_k])
            _fp8_gemm_tma_kernel[(tiles_m * tiles_n,)](
                x_desc, x_scale, w_desc, w_scale, out,
                M, N, tiles_m, tiles_n, tiles_k,
                BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
                num_warps=8, num_stages=4,
            )
            return out

        if M <= 16:
            block_m, block_n, block_k, warps, stages = 16, 64, 128, 4, 4
        elif M <= 64 or N <= 64 or ((M + 127) // 128) * ((N + 127) // 128) < 128:
            block_m, block_n, block_k, warps, stages = 64, 64, 256, 4, 3
        else:
            block_m, block_n, block_k, warps, stages = 128, 128, 256, 8, 3

        tiles_m = (M + block_m - 1) // block_m
        tiles_n = (N + block_n - 1) // block_n
        tiles_k = (K + block_k - 1) // block_k
        _fp8_gemm_kernel[(tiles_m * tiles_n,)](
            x, x_scale, w, w_scale, out,
            M, N, K, tiles_m, tiles_n, tiles_k,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
            EVEN_K=(K % block_k == 0),
            num_warps=warps, num_stages=stages,
        )
        return out
