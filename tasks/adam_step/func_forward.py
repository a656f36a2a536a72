# One step of Adam with decoupled weight decay (AdamW) for a matrix of parameters. Parameters and
# moments are float32, as in training with mixed precision; the gradient may be bfloat16.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(parameters, gradient, mean, square, step, learning_rate, beta1, beta2, eps,
               weight_decay):
    """Returns the new parameters, mean and square:
    mean' = beta1 * mean + (1 - beta1) * gradient,
    square' = beta2 * square + (1 - beta2) * gradient^2,
    parameters' = parameters * (1 - rate * weight_decay) - rate * m / (sqrt(s) + eps),
    with m = mean' / (1 - beta1^step), s = square' / (1 - beta2^step), rate the learning rate."""
    gradient = gradient.float()
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient * gradient
    root = (square / (1 - beta2 ** step)).sqrt()
    update = mean / (1 - beta1 ** step) / (root + eps)
    parameters = parameters * (1 - learning_rate * weight_decay) - learning_rate * update
    return parameters, mean, square


class Model(nn.Module):
    def __init__(self, step=10, learning_rate=3e-4, beta1=0.9, beta2=0.999, eps=1e-8,
                 weight_decay=0.1):
        super().__init__()
        self.numbers = (step, learning_rate, beta1, beta2, eps, weight_decay)

    def forward(self, parameters, gradient, mean, square, fn=forward_fn):
        return fn(parameters, gradient, mean, square, *self.numbers)


def get_inputs(num_rows=4096, num_columns=4096, grad_dtype="float32"):
    shape = (num_rows, num_columns)
    return [
        0.02 * torch.randn(shape),
        (0.1 * torch.randn(shape)).to(getattr(torch, grad_dtype)),
        0.1 * torch.randn(shape),
        0.001 + 0.01 * torch.rand(shape),  # a mean of squares: never negative
    ]


input_names = ["parameters", "gradient", "mean", "square"]
