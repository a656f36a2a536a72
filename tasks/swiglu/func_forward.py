# The activation of a gated feed-forward block, gates and values side by side as one matrix product
# leaves them. 14336 hidden features are those of a 4096-wide transformer of 8 billion parameters.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x):
    """y[t, h] = silu(x[t, h]) * x[t, hidden + h], with silu(g) = g / (1 + exp(-g))."""
    gate, value = computable(x).chunk(2, dim=-1)
    return (F.silu(gate) * value).to(x.dtype)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(num_tokens=1024, num_hidden=14336, dtype="bfloat16"):
    return [torch.randn(num_tokens, 2 * num_hidden).to(getattr(torch, dtype))]


input_names = ["x"]
