# Gradients of convolution, ReLU and 2x2 max pooling with respect to input, weights and biases.
# SPDX-License-Identifier: Apache-2.0
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def forward_fn(x, weights, biases):
    """Convolution without padding, stride 1; then max(0, .); then the maximum of each 2x2 window, an
    odd last row or column being left out."""
    return F.max_pool2d(torch.relu(F.conv2d(x, weights, biases)), kernel_size=2)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by whoever runs the task

    @staticmethod
    def forward(ctx, x, weights, biases):
        ctx.save_for_backward(x, weights, biases)
        return forward_fn(x, weights, biases)

    @staticmethod
    def backward(ctx, grad_output):
        x, weights, biases = ctx.saved_tensors
        grad_x, grad_weights, grad_biases = AutogradFunction.backward_fn(
            x, weights, biases, grad_output)
        return grad_x, grad_weights, grad_biases


class Model(nn.Module):
    def __init__(self, in_channels=1, out_channels=32, kernel_size=3, init_method="kaiming"):
        super().__init__()
        weights = torch.empty(out_channels, in_channels, kernel_size, kernel_size)
        if init_method == "kaiming":
            nn.init.kaiming_uniform_(weights, a=math.sqrt(5))
        elif init_method == "xavier":
            nn.init.xavier_normal_(weights)
        elif init_method == "normal":
            nn.init.normal_(weights)
        else:
            raise ValueError("unknown init_method %r" % init_method)
        self.weights = nn.Parameter(weights)
        self.biases = nn.Parameter(torch.randn(out_channels) * 0.1)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases)


def get_inputs(batch_size=64, in_channels=1, height=28, width=28):
    return [torch.randn(batch_size, in_channels, height, width, requires_grad=True)]


input_names = ["x"]
