# Layer normalisation of 16-bit numbers, as in transformers for text and images: 768, 1280 or 4096
# features.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, biases, eps):
    """y = (x - mean) / sqrt(variance + eps) * weights + biases, mean and (biased) variance being
    those of the last dimension."""
    return F.layer_norm(computable(x), x.shape[-1:], computable(weights), computable(biases),
                        eps).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_features=768, eps=1e-5, dtype="float16"):
        super().__init__()
        kind = getattr(torch, dtype)
        self.weights = nn.Parameter((1 + 0.4 * torch.randn(num_features)).to(kind))
        self.biases = nn.Parameter((0.4 * torch.randn(num_features)).to(kind))
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases, self.eps)


def get_inputs(num_tokens=8192, num_features=768, dtype="float16"):
    size = 0.3 + 2 * torch.rand(num_tokens, 1)  # tokens differ
    return [(size * (0.5 + torch.randn(num_tokens, num_features))).to(getattr(torch, dtype))]


input_names = ["x"]
