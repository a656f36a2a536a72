# GELU by tanh, element by element: its gradient.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by the program that runs the task

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return AutogradFunction.backward_fn(grad_output, x)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=64, columns=512):
    return [torch.randn(rows, columns, requires_grad=True)]


input_names = ["x"]
