# The kernel that QuACK's layernorm_fwd calls. That function accepts only float32 weights and biases;
# the kernel takes any type, so nothing has to be converted first.
# SPDX-License-Identifier: Apache-2.0
import torch

requires = ["quack-kernels", "nvidia-cutlass-dsl"]


def quack(x, weights, biases, eps):
    from quack.rmsnorm import _rmsnorm_fwd
    y = torch.empty_like(x)
    _rmsnorm_fwd(x, weights, y, biases, None, None, None, None, eps, True)
    return y
