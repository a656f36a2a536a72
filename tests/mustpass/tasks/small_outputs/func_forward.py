# Outputs of the order of 1e-6: no larger than the errors that a fixed tolerance allows.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x):
    return torch.tanh(x) * 1e-6


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=64, columns=512):
    return [torch.randn(rows, columns)]


input_names = ["x"]
