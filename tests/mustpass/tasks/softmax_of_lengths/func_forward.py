# Softmax of the beginning of each row; lengths are on the GPU.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x, lengths):
    """What comes after a row's length is zero."""
    y = torch.zeros_like(x)
    for row, length in enumerate(lengths.tolist()):
        y[row, :length] = torch.softmax(x[row, :length], -1)
    return y


class Model(nn.Module):
    def forward(self, *inputs, fn=forward_fn):
        return fn(*inputs)


def get_inputs(rows=5, columns=64):
    return [torch.randn(rows, columns), torch.randint(1, columns + 1, (rows,), dtype=torch.int32)]


input_names = ["x", "lengths"]
