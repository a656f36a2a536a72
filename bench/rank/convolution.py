# A 3x3 convolution, 16 to 16 channels, no padding.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, w):
        return torch.nn.functional.conv2d(x, w)


def get_inputs():
    return [torch.randn(16, 16, 66, 66), torch.randn(16, 16, 3, 3)]


def get_init_inputs():
    return []
