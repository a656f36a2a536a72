# A product of float16 matrices that are read and written through tensor descriptors: the host's for the operands, the
# device's for the result, which needs an allocator.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def product_kernel(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    to = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
    to.store([m, n], sums.to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, a, b):
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
        (m, k), n = a.shape, b.shape[0]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        product_kernel[(triton.cdiv(m, 128), triton.cdiv(n, 64))](
            TensorDescriptor.from_tensor(a, [128, 64]), TensorDescriptor.from_tensor(b, [64, 64]), c, m, n, k,
            BLOCK_M=128, BLOCK_N=64, BLOCK_K=64)
        return c
