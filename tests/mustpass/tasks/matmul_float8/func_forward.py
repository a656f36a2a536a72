# Product of two float8 matrices, dequantised by a scale for each row of x and of w.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x, w, x_scale, w_scale):
    """x: [rows, depth], w: [columns, depth]; x_scale: [rows, 1], w_scale: [1, columns]."""
    y = torch.matmul(x.to(torch.float32), w.to(torch.float32).t())
    return (y * x_scale * w_scale).to(torch.bfloat16)


class Model(nn.Module):
    def forward(self, x, w, x_scale, w_scale, fn=forward_fn):
        return fn(x, w, x_scale, w_scale)


def quantized(rows, depth):
    values = torch.randn(rows, depth)
    scale = values.abs().amax(dim=1, keepdim=True) / 448
    return (values / scale).to(torch.float8_e4m3fn), scale


def get_inputs(rows=64, depth=96, columns=48):
    x, x_scale = quantized(rows, depth)
    w, w_scale = quantized(columns, depth)
    return [x, w, x_scale, w_scale.t().contiguous()]


input_names = ["x", "w", "x_scale", "w_scale"]
