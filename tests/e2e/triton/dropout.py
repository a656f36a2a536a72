# Dropout of given probability, with Philox numbers of a fixed seed, and an activation from CUDA's libdevice.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def dropout_kernel(x, y, size, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = libdevice.asinh(tl.load(x + at, mask=inside))
    tl.store(y + at, tl.where(tl.rand(seed, at) > p, value / (1 - p), 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        dropout_kernel[grid](x, y, x.numel(), 0.5, 123, BLOCK=1024)
        return y
