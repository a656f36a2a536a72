# A linear layer whose weights are kept as 4-bit integers, two in a byte, with a scale and a zero
# point for each 128 input features of an output, as large language models are decoded (AWQ, GPTQ).
# Single: 16 users, a layer of Llama 3 8B; multi has layers of the 70B and one user, too.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

GROUP = 128


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, scales, zeros):
    """x is (tokens, features), weights (outputs, bytes) uint8: the lower four bits of byte i are of
    feature 2 i, the upper ones of feature 2 i + 1 (unused if there is none). scales, of x's type,
    and zeros, uint8 up to 15, are (outputs, groups of 128 features); the last group may be shorter.
    y[t, o] = sum over f of x[t, f] * (weights[o, f] - zeros[o, f / 128]) * scales[o, f / 128]."""
    features = x.size(1)
    wide = computable(scales)
    integers = torch.stack((weights & 15, weights >> 4), dim=2).flatten(1)[:, :features]
    of_feature = [
        v.to(wide.dtype).repeat_interleave(GROUP, dim=1)[:, :features] for v in (zeros, wide)
    ]
    w = (integers.to(wide.dtype) - of_feature[0]) * of_feature[1]
    return F.linear(computable(x), w).to(x.dtype)


class Model(nn.Module):
    def __init__(self, num_input_features=4096, num_output_features=14336, dtype="bfloat16"):
        super().__init__()
        groups = (num_input_features + GROUP - 1) // GROUP
        w = torch.randn(num_output_features, groups * GROUP) / num_input_features ** 0.5
        w = w.view(num_output_features, groups, GROUP)
        w *= 0.3 + 1.4 * torch.rand(num_output_features, groups, 1)
        w += 0.01 * torch.randn(num_output_features, groups, 1)  # zero points differ
        low = w.amin(dim=2).clamp(max=0)
        scales = ((w.amax(dim=2).clamp(min=0) - low) / 15).to(getattr(torch, dtype))
        steps = scales.float().clamp(min=2 ** -24)
        zeros = (-low / steps).round().clamp(0, 15)
        integers = (w / steps[:, :, None] + zeros[:, :, None]).round().clamp(0, 15).to(torch.uint8)
        integers = integers.view(num_output_features, -1)[:, : num_input_features]
        integers = F.pad(integers, (0, num_input_features % 2))
        self.register_buffer("weights", integers[:, ::2] | integers[:, 1::2] << 4)
        self.scales = nn.Parameter(scales)
        self.register_buffer("zeros", zeros.to(torch.uint8))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.scales, self.zeros)


def get_inputs(batch_size=16, num_input_features=4096, dtype="bfloat16"):
    x = torch.randn(batch_size, num_input_features) * (0.3 + 1.4 * torch.rand(batch_size, 1))
    return [x.to(getattr(torch, dtype))]


input_names = ["x"]
