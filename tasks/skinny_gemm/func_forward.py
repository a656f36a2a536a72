# A linear layer of few rows, as when a language model decodes for a few users at once: the time is
# that of reading the weights. Single: a 4096-wide transformer's output projection.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights):
    """y[b, o] = sum over i of x[b, i] * weights[o, i]."""
    return F.linear(computable(x), computable(weights)).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_input_features=4096, num_output_features=4096, dtype="bfloat16"):
        super().__init__()
        weights = torch.randn(num_output_features, num_input_features) / num_input_features ** 0.5
        self.weights = nn.Parameter(weights.to(getattr(torch, dtype)))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights)


def get_inputs(batch_size=4, num_input_features=4096, dtype="bfloat16"):
    return [torch.randn(batch_size, num_input_features).to(getattr(torch, dtype))]


input_names = ["x"]
