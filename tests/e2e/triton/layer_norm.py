# Layer normalisation: one program for each row, which reads the row three times in blocks.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x, y, weight, bias, stride, size, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < size, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / size
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < size, other=0.0).to(tl.float32)
        value = tl.where(at < size, value - mean, 0.0)
        squares += value * value
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / size + epsilon)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < size
        value = (tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
        tl.store(y + at, value * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        y = torch.empty_like(x)
        rows = x.reshape(-1, x.shape[-1])
        size = rows.shape[1]
        block = min(65536 // x.element_size(), triton.next_power_of_2(size))
        layer_norm_kernel[(rows.shape[0],)](rows, y, self.norm.weight, self.norm.bias, rows.stride(0), size,
                                            self.norm.eps, BLOCK=block, num_warps=min(max(block // 256, 1), 8))
        return y
