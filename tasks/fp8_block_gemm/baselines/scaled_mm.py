# PyTorch's product of float8 numbers with block scales (cuBLASLt's, on Hopper). It wants the scales
# of a with tokens side by side, and those of b with a multiple of four blocks of features.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F
from torch.nn.functional import ScalingType


def scaled_mm(a, a_scales, b, b_scales):
    tokens, blocks = a_scales.shape
    of_a = torch.empty_strided((tokens, blocks), (1, tokens), device=a.device)
    of_a.copy_(a_scales)
    if blocks % 4:
        b_scales = F.pad(b_scales, (0, 4 - blocks % 4))
    return F.scaled_mm(a, b.t(), of_a, ScalingType.BlockWise1x128, b_scales.t(),
                       ScalingType.BlockWise128x128, output_dtype=torch.bfloat16)
