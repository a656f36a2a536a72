# Softmax over the last dimension: its gradient.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x):
    """exp(x) / sum(exp(x)) of each row."""
    return torch.softmax(x, dim=-1)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by the program that runs the task

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return AutogradFunction.backward_fn(grad_output, y)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=64, columns=512):
    return [torch.randn(rows, columns, requires_grad=True)]


input_names = ["x"]
