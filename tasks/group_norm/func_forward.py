# Group normalisation as in the residual blocks of a diffusion model's U-Net: 320 channels of
# 64 x 64 in 32 groups.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, biases, num_groups, eps):
    """y = (x - mean) / sqrt(variance + eps) * weights[c] + biases[c], mean and (biased) variance
    being those of a sample's group of channels / num_groups neighbouring channels."""
    return F.group_norm(computable(x), num_groups, computable(weights), computable(biases),
                        eps).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_channels=320, num_groups=32, eps=1e-5, dtype="float32"):
        super().__init__()
        kind = getattr(torch, dtype)
        self.weights = nn.Parameter((1 + 0.4 * torch.randn(num_channels)).to(kind))
        self.biases = nn.Parameter((0.4 * torch.randn(num_channels)).to(kind))
        self.num_groups = num_groups
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases, self.num_groups, self.eps)


def get_inputs(batch_size=8, num_channels=320, height=64, width=64, dtype="float32"):
    x = 0.5 + torch.randn(batch_size, num_channels, height, width)
    x *= 0.3 + 2 * torch.rand(batch_size, num_channels, 1, 1)  # channels differ
    return [x.to(getattr(torch, dtype))]


input_names = ["x"]
