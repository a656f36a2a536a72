# torch.compile, which tries Triton's products and the library's for the 16-bit weights.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(x, weights, scales, zeros):
    features = x.size(1)
    integers = torch.stack((weights & 15, weights >> 4), dim=2).flatten(1)[:, :features]
    z = zeros.to(x.dtype).repeat_interleave(128, dim=1)[:, :features]
    s = scales.repeat_interleave(128, dim=1)[:, :features]
    return F.linear(x, (integers.to(x.dtype) - z) * s)
