# Dynamic quantisation to float8_e4m3fn, one scale for each group of neighbouring features of a
# token. Single: 4096 tokens of a 4096-wide transformer in groups of 128, as block-scaled products
# need them; multi has one scale for each token, too. Some channels are far larger than others, as
# in activations of language models, and one token in twelve is padding (zeros).
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

LARGEST = 448.0  # of float8_e4m3fn
SMALLEST_SCALE = 1 / (LARGEST * 512)  # groups of zeros need one, too


def forward_fn(x, group):
    """x is (tokens, features). Each token's features are cut into groups of `group` neighbours; the
    last group may be shorter. scale = max(max |x| of the group / 448, SMALLEST_SCALE),
    q = x / scale, rounded to float8_e4m3fn. Computes in float32. Returns q (tokens, features) and
    the scales (tokens, groups) in float32."""
    tokens, features = x.shape
    group = min(group, max(features, 1))
    groups = (features + group - 1) // group
    members = x.float()
    if features % group:  # zeros do not change the last group's largest magnitude
        members = F.pad(members, (0, groups * group - features))
    members = members.view(tokens, groups, group)
    scales = (members.abs().amax(dim=-1) / LARGEST).clamp(min=SMALLEST_SCALE)
    q = (members / scales[:, :, None]).view(tokens, groups * group)[:, :features]
    return q.to(torch.float8_e4m3fn), scales


class Model(nn.Module):
    def forward(self, x, group, fn=forward_fn):
        return fn(x, group)


def get_inputs(num_tokens=4096, num_features=4096, group=128, dtype="bfloat16"):
    x = torch.randn(num_tokens, num_features)
    x *= (0.5 * torch.randn(num_tokens, 1)).exp()  # tokens differ
    x *= (0.5 * torch.randn(num_features)).exp()  # so do channels
    x *= 1 + 30 * (torch.rand(num_features) < 0.01)
    x *= torch.randperm(num_tokens)[:, None] >= num_tokens // 12  # padding
    return [x.to(getattr(torch, dtype)), group]


input_names = ["x", "group"]
