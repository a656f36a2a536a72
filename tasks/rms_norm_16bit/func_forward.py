# Root-mean-square normalisation of 16-bit numbers, as in language models that are served: 4096
# features; 128 where queries and keys are normalised head by head.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, eps):
    """y = weights * x / sqrt(mean(x^2) + eps), the mean being over the last dimension. The sum is
    float32's, as in Llama."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    weights = computable(weights)
    return ((wide * scale).to(weights.dtype) * weights).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_features=4096, eps=1e-5, dtype="bfloat16"):
        super().__init__()
        weights = 1 + 0.4 * torch.randn(num_features)
        self.weights = nn.Parameter(weights.to(getattr(torch, dtype)))
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.eps)


def get_inputs(num_tokens=4096, num_features=4096, dtype="bfloat16"):
    size = 0.3 + 2 * torch.rand(num_tokens, 1)  # tokens differ
    return [(size * torch.randn(num_tokens, num_features)).to(getattr(torch, dtype))]


input_names = ["x"]
