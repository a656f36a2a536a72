# The feed-forward block of Llama: two projections up, of which one gates the other, and one down.
# SPDX-License-Identifier: Apache-2.0
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def projection(num_in, num_out):
    """Weights of a linear layer without bias, as PyTorch starts them."""
    bound = 1 / math.sqrt(num_in)
    return nn.Parameter(torch.empty(num_out, num_in).uniform_(-bound, bound))


def forward_fn(x, gate_proj, up_proj, down_proj):
    """y = (silu(x gate_projᵀ) * (x up_projᵀ)) down_projᵀ, with silu(a) = a / (1 + exp(-a))."""
    return F.linear(F.silu(F.linear(x, gate_proj)) * F.linear(x, up_proj), down_proj)


class Model(nn.Module):
    def __init__(self, num_features=4096, up_features=14336):
        super().__init__()
        self.gate_proj = projection(num_features, up_features)
        self.up_proj = projection(num_features, up_features)
        self.down_proj = projection(up_features, num_features)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.gate_proj, self.up_proj, self.down_proj)


def get_inputs(batch_size=2, num_tokens=128, num_features=4096):
    return [torch.randn(batch_size, num_tokens, num_features)]


input_names = ["x"]
