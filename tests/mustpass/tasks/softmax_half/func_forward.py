# Softmax of half-precision rows, computed in float32 and rounded once. Many probabilities are subnormal.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x):
    return torch.softmax(x.float(), dim=-1).to(x.dtype)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=64, columns=512):
    return [(4 * torch.randn(rows, columns)).half()]


input_names = ["x"]
