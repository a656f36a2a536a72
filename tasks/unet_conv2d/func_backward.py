# Gradients of a two-dimensional convolution with respect to input, weights and biases.
# SPDX-License-Identifier: Apache-2.0
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def initial_convolution(in_channels, out_channels, kernel_size, init_method):
    """Weights by the named method, biases small but not zero, so that a dropped bias shows."""
    weights = torch.empty(out_channels, in_channels, kernel_size, kernel_size)
    if init_method == "kaiming":
        nn.init.kaiming_uniform_(weights, a=math.sqrt(5))
    elif init_method == "xavier":
        nn.init.xavier_normal_(weights)
    elif init_method == "normal":
        nn.init.normal_(weights)
    else:
        raise ValueError("unknown init_method %r" % init_method)
    return nn.Parameter(weights), nn.Parameter(torch.randn(out_channels) * 0.1)


def forward_fn(x, weights, biases, stride=1, padding=0):
    """Every output is the bias plus the sum of a window of x, over all channels, times a filter.
    Windows begin every stride places, in x with padding zeros around it."""
    return F.conv2d(x, weights, biases, stride=stride, padding=padding)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by whoever runs the task

    @staticmethod
    def forward(ctx, x, weights, biases, stride=1, padding=0):
        ctx.save_for_backward(x, weights)
        ctx.stride = stride
        ctx.padding = padding
        return forward_fn(x, weights, biases, stride, padding)

    @staticmethod
    def backward(ctx, grad_output):
        x, weights = ctx.saved_tensors
        grad_x, grad_weights, grad_biases = AutogradFunction.backward_fn(
            grad_output, x, weights, ctx.stride, ctx.padding)
        return grad_x, grad_weights, grad_biases, None, None


class Model(nn.Module):
    def __init__(self, in_channels=64, out_channels=64, kernel_size=3, stride=1, padding=1,
                 init_method="xavier"):
        super().__init__()
        self.weights, self.biases = initial_convolution(
            in_channels, out_channels, kernel_size, init_method)
        self.stride = stride
        self.padding = padding

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases, self.stride, self.padding)


def get_inputs(batch_size=8, in_channels=64, height=32, width=32):
    return [torch.randn(batch_size, in_channels, height, width, requires_grad=True)]


input_names = ["x"]
