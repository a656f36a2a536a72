# Layer normalisation over the last three dimensions: every image is one long row.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def initial_affine(shape, init_method):
    """Weight and bias: ones and zeros as PyTorch starts ("standard"), or normal ("random")."""
    if init_method == "standard":
        return nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
    if init_method == "random":
        return nn.Parameter(torch.randn(shape)), nn.Parameter(torch.randn(shape))
    raise ValueError("unknown init_method %r" % init_method)


def forward_fn(x, weight, bias, eps):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias. Mean and (biased) variance are over
    the dimensions that weight has."""
    return F.layer_norm(x, tuple(weight.shape), weight, bias, eps)


class Model(nn.Module):
    def __init__(self, num_features=64, dim1=256, dim2=256, eps=1e-5, init_method="standard"):
        super().__init__()
        self.weight, self.bias = initial_affine((num_features, dim1, dim2), init_method)
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.bias, self.eps)


def get_inputs(batch_size=16, num_features=64, dim1=256, dim2=256):
    return [torch.randn(batch_size, num_features, dim1, dim2)]


input_names = ["x"]
