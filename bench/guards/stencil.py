# The mean of each point and its four neighbours; points outside are zero.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        weights = torch.tensor([[0.0, 1, 0], [1, 1, 1], [0, 1, 0]]) / 5
        return torch.nn.functional.conv2d(x[None, None], weights[None, None], padding=1)[0, 0]


def get_inputs():
    return [torch.randn(500, 700)]


def get_init_inputs():
    return []
