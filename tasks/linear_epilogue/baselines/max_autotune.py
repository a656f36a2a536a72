# torch.compile, which tries Triton's products with the epilogue in them, and the library's.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "none": lambda y: y,
    "relu": F.relu,
    "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    "silu": F.silu,
}


def layer(a, b, bias, residual, activation):
    y = ACTIVATIONS[activation](a @ b if bias is None else torch.addmm(bias, a, b))
    return y if residual is None else y + residual


max_autotune = torch.compile(layer, mode="max-autotune-no-cudagraphs")
