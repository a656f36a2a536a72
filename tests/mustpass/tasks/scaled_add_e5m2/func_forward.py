# a + alpha b of float8_e5m2 tensors, computed in float32 and clamped to the type's range.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(a, b, alpha):
    y = a.to(torch.float32) + alpha * b.to(torch.float32)
    return torch.clamp(y, -57344.0, 57344.0).to(torch.float8_e5m2)


class Model(nn.Module):
    def forward(self, a, b, fn=forward_fn):
        return fn(a, b, 1.75)


def get_inputs(rows=32, columns=256):
    a = 8000 * torch.randn(rows, columns)
    b = 8000 * torch.randn(rows, columns)
    return [a.to(torch.float8_e5m2), b.to(torch.float8_e5m2)]


input_names = ["a", "b"]
