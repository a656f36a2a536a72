# PyTorch's own fused operator.
# SPDX-License-Identifier: Apache-2.0
import torch.nn.functional as F


def pytorch_rms_norm(x, weights, eps):
    return F.rms_norm(x, x.shape[-1:], weights, eps)
