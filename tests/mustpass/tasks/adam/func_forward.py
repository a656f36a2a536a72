# A step of Adam with decoupled weight decay. The model computes with Python's numbers.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(parameters, gradient, mean, square, step, rate, beta1, beta2, eps, decay):
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient * gradient
    update = mean / (1 - beta1 ** step) / ((square / (1 - beta2 ** step)).sqrt() + eps)
    return parameters * (1 - rate * decay) - rate * update, mean, square


class Model(nn.Module):
    def __init__(self, step=10):
        super().__init__()
        self.numbers = (step, 1e-3, 0.9, 0.999, 1e-8, 0.1)

    def forward(self, parameters, gradient, mean, square, fn=forward_fn):
        return fn(parameters, gradient, mean, square, *self.numbers)


def get_inputs(count=3000):
    return [torch.randn(count), torch.randn(count), torch.randn(count), torch.rand(count)]
