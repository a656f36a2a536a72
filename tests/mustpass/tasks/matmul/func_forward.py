# Matrix product.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(a, b):
    return a @ b


class Model(nn.Module):
    def forward(self, a, b, fn=forward_fn):
        return fn(a, b)


def get_inputs(m=64, n=96, k=128):
    return [torch.randn(m, k), torch.randn(k, n)]


input_names = ["a", "b"]
