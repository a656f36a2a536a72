# A linear layer in float8: quantises each row of x, then multiplies with quantised weights.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def quantized(values):
    scale = torch.clamp(values.abs().amax(dim=1, keepdim=True), min=1e-12) / 448.0
    return (values / scale).to(torch.float8_e4m3fn), scale


def forward_fn(x, w, w_scale):
    """x: [rows, depth]; w: [columns, depth], float8; w_scale: [1, columns]."""
    q, scale = quantized(x)
    one = torch.ones(1, device=x.device)  # PyTorch before 2.13 multiplies by one scale only on the CPU
    product = torch._scaled_mm(q, w.t(), scale_a=one, scale_b=one, out_dtype=torch.float32)
    return (product * scale * w_scale).to(torch.bfloat16)


class Model(nn.Module):
    def forward(self, x, w, w_scale, fn=forward_fn):
        return fn(x, w, w_scale)


def get_inputs(rows=64, depth=128, columns=64):
    w, w_scale = quantized(torch.randn(columns, depth))
    return [torch.randn(rows, depth), w, w_scale.t().contiguous()]


input_names = ["x", "w", "w_scale"]
