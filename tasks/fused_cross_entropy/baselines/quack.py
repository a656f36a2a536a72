# QuACK has no factor for all gradients, but one for each class, which also scales losses.
# SPDX-License-Identifier: Apache-2.0
import torch

requires = ["quack-kernels", "nvidia-cutlass-dsl"]


def quack(logits, target, scale):
    from quack.cross_entropy import cross_entropy_fwd
    weight = torch.full((logits.size(1),), scale, dtype=torch.float32, device=logits.device)
    losses, _ = cross_entropy_fwd(logits, target, weight=weight, return_dx=True,
                                  inplace_backward=True)
    return losses / scale
