# y = a x + y with a number as argument.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x, y, a):
    return a * x + y


class Model(nn.Module):
    def __init__(self, a=0.75):
        super().__init__()
        self.a = a

    def forward(self, x, y, fn=forward_fn):
        return fn(x, y, self.a)


def get_inputs(rows=64, columns=512):
    return [torch.randn(rows, columns), torch.randn(rows, columns)]


input_names = ["x", "y"]
