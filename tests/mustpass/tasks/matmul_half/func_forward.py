# Product of half-precision matrices, summed in float32, rounded once.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(a, b):
    return (a.float() @ b.float()).to(a.dtype)


class Model(nn.Module):
    def forward(self, a, b, fn=forward_fn):
        return fn(a, b)


def get_inputs(m=64, n=96, k=128):
    return [torch.randn(m, k).half(), torch.randn(k, n).half()]


input_names = ["a", "b"]
