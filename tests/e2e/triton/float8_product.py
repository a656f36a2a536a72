# Sums of float8 products, added to float32 sums after each 128 of them: Triton reads the sums before wgmma's wait.
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, M, N, K, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    columns = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    inner = tl.arange(0, DEPTH)
    sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for at in range(0, K, DEPTH):
        x = tl.load(a + rows * K + at + inner[None, :], mask=(rows < M) & (at + inner[None, :] < K), other=0.0)
        y = tl.load(b + columns * K + at + inner[:, None], mask=(columns < N) & (at + inner[:, None] < K), other=0.0)
        sums = tl.dot(x, y, sums, max_num_imprecise_acc=DEPTH)
    tl.store(c + rows * N + columns, sums.to(tl.bfloat16), mask=(rows < M) & (columns < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        c = torch.empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16, device=a.device)
        grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[0], 64))
        product[grid](a, b, c, a.shape[0], b.shape[0], a.shape[1], BLOCK=64, DEPTH=128, num_warps=4)
        return c
