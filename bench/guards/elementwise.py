# Leaky ReLU.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.leaky_relu(x)


def get_inputs():
    return [torch.randn(300000)]


def get_init_inputs():
    return []
