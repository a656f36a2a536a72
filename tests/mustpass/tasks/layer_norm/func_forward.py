# Layer normalisation with the weights that PyTorch begins with (ones and zeros).
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x, weight, bias):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


class Model(nn.Module):
    def __init__(self, columns=512):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.norm.weight, self.norm.bias)


def get_inputs(rows=64, columns=512):
    return [torch.randn(rows, columns)]


input_names = ["x"]
