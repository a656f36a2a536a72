# PyTorch's own fused operator.
# SPDX-License-Identifier: Apache-2.0
import torch.nn.functional as F


def pytorch_rms_norm(x, w, eps=1e-8):
    return F.rms_norm(x, x.shape[-1:], w, eps)
