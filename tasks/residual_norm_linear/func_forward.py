# What stands at the beginning of each half of a decoder's layer: the residual is added, the sum is
# normalised (RMS) and goes through a linear layer. Single: 256 tokens of a 4096-wide transformer.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, residual, scales, weights, eps):
    """Returns y and the new residual, s = x + residual: y[t, o] = sum over i of
    n[t, i] * weights[o, i] with n = scales * s / sqrt(mean(s^2) + eps), the mean being over the
    features."""
    total = computable(x) + computable(residual)
    wide = total.float()
    wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    normal = wide.to(total.dtype) * computable(scales)
    return F.linear(normal, computable(weights)).to(x.dtype), total.to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_features=4096, num_output_features=4096, eps=1e-5, dtype="bfloat16"):
        super().__init__()
        kind = getattr(torch, dtype)
        weights = torch.randn(num_output_features, num_features) / num_features ** 0.5
        self.scales = nn.Parameter((1 + 0.4 * torch.randn(num_features)).to(kind))
        self.weights = nn.Parameter(weights.to(kind))
        self.eps = eps

    def forward(self, x, residual, fn=forward_fn):
        return fn(x, residual, self.scales, self.weights, self.eps)


def get_inputs(num_tokens=256, num_features=4096, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    size = 0.3 + 2 * torch.rand(num_tokens, 1)  # tokens differ
    return [(size * torch.randn(num_tokens, num_features)).to(kind) for _ in range(2)]


input_names = ["x", "residual"]
