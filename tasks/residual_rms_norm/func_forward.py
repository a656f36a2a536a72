# The residual is added, and the sum is normalised (RMS), as before each half of a decoder's layer
# in language models that are served. Nothing is changed in place.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, residual, weights, eps):
    """Returns y and the new residual, s = x + residual: y = weights * s / sqrt(mean(s^2) + eps),
    the mean being over the last dimension. The sum of squares is float32's, as in Llama."""
    total = computable(x) + computable(residual)
    wide = total.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    normal = (wide * scale).to(total.dtype) * computable(weights)
    return normal.to(x.dtype), total.to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_features=4096, eps=1e-5, dtype="bfloat16"):
        super().__init__()
        weights = 1 + 0.4 * torch.randn(num_features)
        self.weights = nn.Parameter(weights.to(getattr(torch, dtype)))
        self.eps = eps

    def forward(self, x, residual, fn=forward_fn):
        return fn(x, residual, self.weights, self.eps)


def get_inputs(num_tokens=4096, num_features=4096, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    size = 0.3 + 2 * torch.rand(num_tokens, 1)  # tokens differ, and residuals are larger
    return [(size * torch.randn(num_tokens, num_features)).to(kind),
            (3 * size * torch.randn(num_tokens, num_features)).to(kind)]


input_names = ["x", "residual"]
