# A linear layer whose weights are kept as 8-bit integers with one scale for each output feature, as
# large language models are served. Single: 16 users of a 4096-wide transformer.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, scales):
    """y[b, o] = scales[o] * sum over i of x[b, i] * weights[o, i], weights being int8."""
    wide = computable(scales)
    return F.linear(computable(x), weights.to(wide.dtype) * wide[:, None]).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_input_features=4096, num_output_features=4096, dtype="bfloat16"):
        super().__init__()
        weights = torch.randn(num_output_features, num_input_features)
        weights *= 0.3 + 1.4 * torch.rand(num_output_features, 1)
        scales = weights.abs().amax(dim=1) / 127
        integers = (weights / scales[:, None]).round().to(torch.int8)
        self.register_buffer("weights", integers)
        scales = scales / num_input_features ** 0.5
        self.scales = nn.Parameter(scales.to(getattr(torch, dtype)))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.scales)


def get_inputs(batch_size=16, num_input_features=4096, dtype="bfloat16"):
    return [torch.randn(batch_size, num_input_features).to(getattr(torch, dtype))]


input_names = ["x"]
