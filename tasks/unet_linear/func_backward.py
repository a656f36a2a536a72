# Gradients of a linear layer over the last dimension of a three-dimensional input with
# respect to input, weights and biases.
# SPDX-License-Identifier: Apache-2.0
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def initial_linear(num_input_features, num_output_features, init_method):
    """Weights by the named method, biases small but not zero, so that a dropped bias shows."""
    weights = torch.empty(num_output_features, num_input_features)
    if init_method == "kaiming":
        nn.init.kaiming_uniform_(weights, a=math.sqrt(5))
    elif init_method == "xavier":
        nn.init.xavier_normal_(weights)
    elif init_method == "normal":
        nn.init.normal_(weights)
    else:
        raise ValueError("unknown init_method %r" % init_method)
    return nn.Parameter(weights), nn.Parameter(torch.randn(num_output_features) * 0.1)


def forward_fn(x, weights, biases):
    """y[b, t, o] = sum over i of x[b, t, i] * weights[o, i], plus biases[o]."""
    return F.linear(x, weights, biases)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by whoever runs the task

    @staticmethod
    def forward(ctx, x, weights, biases):
        ctx.save_for_backward(x, weights)
        return F.linear(x, weights, biases)

    @staticmethod
    def backward(ctx, grad_output):
        x, weights = ctx.saved_tensors
        grad_x, grad_weights, grad_biases = AutogradFunction.backward_fn(grad_output, x, weights)
        return grad_x, grad_weights, grad_biases


class Model(nn.Module):
    def __init__(self, num_input_features=128, num_output_features=128, init_method="kaiming"):
        super().__init__()
        self.weights, self.biases = initial_linear(
            num_input_features, num_output_features, init_method)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights, self.biases)


def get_inputs(batch_size=64, num_input_features=128, height=16, width=16):
    return [torch.randn(batch_size, height * width, num_input_features, requires_grad=True)]


input_names = ["x"]
