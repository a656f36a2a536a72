# A linear layer of float8_e4m3fn numbers with block scales, as DeepSeek-V3 is served: activations
# have one scale for each token and 128 features, weights one for each block of 128 x 128. Single:
# 4096 tokens of a prefill; multi has steps of decoding, too. Magnitudes differ among tokens,
# channels and blocks, and one token in twelve is padding (zeros).
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

BLOCK = 128
LARGEST = 448.0  # of float8_e4m3fn
SMALLEST_SCALE = 1 / (LARGEST * 512)  # blocks of zeros need one, too


def per_number(scales, dim, size):
    """Repeats scales along a dimension that they have for each block of it."""
    return scales.repeat_interleave(BLOCK, dim=dim).narrow(dim, 0, size)


def forward_fn(a, a_scales, b, b_scales):
    """a (tokens, features) and b (outputs, features) are float8_e4m3fn, a_scales (tokens, blocks of
    features) and b_scales (blocks of outputs, blocks of features) float32; the last block may be
    shorter than 128. y[t, o] = sum over f of a[t, f] * a_scales[t, f / 128] * b[o, f] *
    b_scales[o / 128, f / 128] in float32, rounded to bfloat16."""
    features = a.size(1)
    x = a.float() * per_number(a_scales, 1, features)
    weights = b.float() * per_number(per_number(b_scales, 1, features), 0, b.size(0))
    return F.linear(x, weights).to(torch.bfloat16)


class Model(nn.Module):
    def forward(self, a, a_scales, b, b_scales, fn=forward_fn):
        return fn(a, a_scales, b, b_scales)


def quantize(x, rows):
    """A scale for each `rows` x 128 numbers of x, which is overwritten."""
    row_blocks = (x.size(0) + rows - 1) // rows
    blocks = (x.size(1) + BLOCK - 1) // BLOCK
    scales = torch.empty(row_blocks, blocks)
    for i in range(blocks):
        columns = x[:, i * BLOCK : (i + 1) * BLOCK]
        largest = columns.abs().amax(dim=1)
        largest = F.pad(largest, (0, row_blocks * rows - x.size(0))).view(row_blocks, rows)
        scale = (largest.amax(dim=1) / LARGEST).clamp(min=SMALLEST_SCALE)
        scales[:, i] = scale
        columns /= scale.repeat_interleave(rows)[: x.size(0), None]
    return x.to(torch.float8_e4m3fn), scales


def get_inputs(num_tokens=4096, num_features=7168, num_output_features=4096):
    x = torch.randn(num_tokens, num_features)
    x *= (0.5 * torch.randn(num_tokens, 1)).exp()  # tokens differ
    x *= (0.5 * torch.randn(num_features)).exp()  # so do channels
    x *= 1 + 30 * (torch.rand(num_features) < 0.01)
    x *= torch.randperm(num_tokens)[:, None] >= num_tokens // 12  # padding
    weights = torch.randn(num_output_features, num_features) / num_features ** 0.5
    row_blocks = (num_output_features + BLOCK - 1) // BLOCK
    sizes = (0.7 * torch.randn(row_blocks, (num_features + BLOCK - 1) // BLOCK)).exp()
    sizes = per_number(sizes, 1, num_features)
    weights *= per_number(sizes, 0, num_output_features)  # blocks differ
    return [*quantize(x, 1), *quantize(weights, BLOCK)]


input_names = ["a", "a_scales", "b", "b_scales"]
