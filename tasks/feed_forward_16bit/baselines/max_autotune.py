# torch.compile, which tries Triton's products and the library's.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
