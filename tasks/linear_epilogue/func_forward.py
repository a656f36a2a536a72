# A linear layer with what models do around it: a bias, an activation and a residual that is added.
# The factors lie as training and serving leave them: "N" as written, "T" as a transposed view; the
# first letter is of a, the second of b. "NT" is the usual linear layer (b is weights.t()), "NN" its
# gradient for x, "TN" its gradient for the weights, to which earlier ones are added. Single: the
# gate of an 8B model's feed-forward block, for 2048 tokens.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def activate(y, activation):
    if activation == "relu":
        return F.relu(y)
    if activation == "gelu_tanh":
        return F.gelu(y, approximate="tanh")
    if activation == "silu":
        return F.silu(y)
    if activation != "none":
        raise ValueError("the activation is none, relu, gelu_tanh or silu")
    return y


def forward_fn(a, b, bias, residual, activation):
    """y = activation(a @ b + bias) + residual. a is (rows, inner), b (inner, columns), bias
    (columns) or None, residual (rows, columns) or None. A kernel rounds once, at the end."""
    a, b, kind = computable(a), computable(b), a.dtype
    y = a @ b if bias is None else torch.addmm(computable(bias), a, b)
    y = activate(y, activation)
    return (y if residual is None else y + computable(residual)).to(kind)


class Model(nn.Module):
    def forward(self, a, b, bias, residual, activation, fn=forward_fn):
        return fn(a, b, bias, residual, activation)


def get_inputs(num_rows=2048, num_columns=14336, num_inner=4096, layout="NT", activation="silu",
               has_bias=False, has_residual=False, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    a = torch.randn(num_rows, num_inner) * (0.3 + 1.4 * torch.rand(num_rows, 1))
    b = torch.randn(num_inner, num_columns) * (0.3 + 1.4 * torch.rand(num_columns))
    b /= max(num_inner, 1) ** 0.5
    a = a.t().contiguous().t() if layout[0] == "T" else a
    b = b.t().contiguous().t() if layout[1] == "T" else b
    bias = torch.randn(num_columns).to(kind) if has_bias else None
    residual = torch.randn(num_rows, num_columns).to(kind) if has_residual else None
    return [a.to(kind), b.to(kind), bias, residual, activation]


input_names = ["a", "b", "bias", "residual", "activation"]
