# torch.compile, which fuses the largest magnitudes and the quotients.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(x, group):
    tokens, features = x.shape
    group = min(group, features)
    groups = (features + group - 1) // group
    members = F.pad(x.float(), (0, groups * group - features)).view(tokens, groups, group)
    scales = (members.abs().amax(dim=-1) / 448).clamp(min=1 / (448 * 512))
    q = (members / scales[:, :, None]).view(tokens, groups * group)[:, :features]
    return q.to(torch.float8_e4m3fn), scales
