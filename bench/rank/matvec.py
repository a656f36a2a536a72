# A matrix times a vector.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, x):
        return a @ x


def get_inputs():
    return [torch.randn(2048, 4096), torch.randn(4096)]


def get_init_inputs():
    return []
