# Sum of each row.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(512, 3000)]


def get_init_inputs():
    return []
