# cuBLAS with as much of the epilogue as PyTorch asks it for: bias with ReLU or GELU, or the
# residual as the matrix that the product is added to.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F


def libraries():
    return "CUDA %s" % torch.version.cuda


def cublaslt(a, b, bias, residual, activation):
    if bias is not None and activation in ("relu", "gelu_tanh"):
        y = torch.ops.aten._addmm_activation(bias, a, b, use_gelu=activation == "gelu_tanh")
        return y if residual is None else y + residual
    if bias is None and activation == "none" and residual is not None:
        return torch.addmm(residual, a, b)
    y = a @ b if bias is None else torch.addmm(bias, a, b)
    if activation == "relu":
        y = F.relu(y)
    elif activation == "gelu_tanh":
        y = F.gelu(y, approximate="tanh")
    elif activation == "silu":
        y = F.silu(y)
    return y if residual is None else y + residual
