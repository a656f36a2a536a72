# A depthwise convolution: each channel with a filter of its own. Single: the first stage of a
# modern convolutional network (96 channels of 56 x 56, 7 x 7 filters); multi has the 3 x 3 filters
# with stride 2 of networks for telephones.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, biases, stride, padding):
    """y[n, c, i, j] = biases[c] + sum over p, q of weights[c, 0, p, q] *
    x[n, c, i * stride - padding + p, j * stride - padding + q], x being zero outside."""
    x_, weights_, biases_ = computable(x), computable(weights), computable(biases)
    return F.conv2d(x_, weights_, biases_, stride=stride, padding=padding,
                    groups=x.size(1)).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_channels=96, kernel_size=7, stride=1, padding=3, dtype="float32"):
        super().__init__()
        kind = getattr(torch, dtype)
        weights = torch.randn(num_channels, 1, kernel_size, kernel_size) / kernel_size
        self.weights = nn.Parameter(weights.to(kind))
        self.biases = nn.Parameter((torch.randn(num_channels) * 0.1).to(kind))
        self.stride = stride
        self.padding = padding

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases, self.stride, self.padding)


def get_inputs(batch_size=16, num_channels=96, height=56, width=56, dtype="float32"):
    return [torch.randn(batch_size, num_channels, height, width).to(getattr(torch, dtype))]


input_names = ["x"]
