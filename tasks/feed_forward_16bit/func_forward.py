# A gated feed-forward block (SwiGLU) of 16-bit numbers. Single: 64 tokens of a 2048-wide
# transformer of a billion parameters.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, gate, up, down):
    """y = (silu(x gate^T) * (x up^T)) down^T, with silu(g) = g / (1 + exp(-g))."""

    def rounded(t):
        """As PyTorch's operators hand 16-bit numbers to one another; a kernel may, too."""
        return computable(t.to(x.dtype))

    x_, gate, up, down = (computable(t) for t in (x, gate, up, down))
    hidden = rounded(F.silu(rounded(F.linear(x_, gate)))) * rounded(F.linear(x_, up))
    return F.linear(rounded(hidden), down).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_features=2048, num_hidden=5632, dtype="bfloat16"):
        super().__init__()

        def weights(rows, columns):
            return nn.Parameter((torch.randn(rows, columns) / columns ** 0.5)
                                .to(getattr(torch, dtype)))

        self.gate = weights(num_hidden, num_features)
        self.up = weights(num_hidden, num_features)
        self.down = weights(num_features, num_hidden)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.gate, self.up, self.down)


def get_inputs(num_tokens=64, num_features=2048, dtype="bfloat16"):
    return [torch.randn(num_tokens, num_features).to(getattr(torch, dtype))]


input_names = ["x"]
