# The basic block of ResNet: two convolutions beside a shortcut.
# SPDX-License-Identifier: Apache-2.0
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize(x, mean, var, weight, bias, eps):
    """Batch normalisation with the statistics of training, as at inference."""
    return F.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)


def forward_fn(x, conv1_weight, conv1_bias, bn1_weight, bn1_bias, bn1_mean, bn1_var,
               conv2_weight, conv2_bias, bn2_weight, bn2_bias, bn2_mean, bn2_var,
               downsample_weight=None, downsample_bias=None, downsample_bn_weight=None,
               downsample_bn_bias=None, downsample_bn_mean=None, downsample_bn_var=None,
               stride=1, eps=1e-5):
    """y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut). conv1 and conv2 are 3x3 with a padding of
    one; conv1 strides. The shortcut is x, or where there is a downsample_weight the normalised 1x1
    convolution of x that strides alike. Biases of convolutions may be None."""
    y = F.conv2d(x, conv1_weight, conv1_bias, stride=stride, padding=1)
    y = torch.relu(normalize(y, bn1_mean, bn1_var, bn1_weight, bn1_bias, eps))
    y = F.conv2d(y, conv2_weight, conv2_bias, padding=1)
    y = normalize(y, bn2_mean, bn2_var, bn2_weight, bn2_bias, eps)
    shortcut = x
    if downsample_weight is not None:
        shortcut = F.conv2d(x, downsample_weight, downsample_bias, stride=stride)
        shortcut = normalize(shortcut, downsample_bn_mean, downsample_bn_var,
                             downsample_bn_weight, downsample_bn_bias, eps)
    return torch.relu(y + shortcut)


def initial_filters(in_channels, out_channels, kernel_size):
    """Weights of a convolution, as PyTorch starts them."""
    bound = 1 / math.sqrt(in_channels * kernel_size * kernel_size)
    shape = (out_channels, in_channels, kernel_size, kernel_size)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


class Normalization(nn.Module):
    """What batch normalisation knows after training: no parameter is 0 or 1, and none is missed."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(channels))
        self.bias = nn.Parameter(0.1 * torch.randn(channels))
        self.register_buffer("mean", 0.1 * torch.randn(channels))
        self.register_buffer("var", 0.5 + torch.rand(channels))

    def arguments(self):
        return self.weight, self.bias, self.mean, self.var


class Model(nn.Module):
    def __init__(self, in_channels=64, out_channels=64, stride=1, downsample=False, eps=1e-5):
        super().__init__()
        self.stride = stride
        self.eps = eps
        self.conv1_weight = initial_filters(in_channels, out_channels, 3)
        self.bn1 = Normalization(out_channels)
        self.conv2_weight = initial_filters(out_channels, out_channels, 3)
        self.bn2 = Normalization(out_channels)
        self.downsample_weight = None
        if downsample or stride != 1 or in_channels != out_channels:
            self.downsample_weight = initial_filters(in_channels, out_channels, 1)
            self.downsample_bn = Normalization(out_channels)

    def forward(self, x, fn=forward_fn):
        downsample = (None,) * 6
        if self.downsample_weight is not None:
            downsample = (self.downsample_weight, None) + self.downsample_bn.arguments()
        return fn(x, self.conv1_weight, None, *self.bn1.arguments(),
                  self.conv2_weight, None, *self.bn2.arguments(),
                  *downsample, self.stride, self.eps)


def get_inputs(batch_size=32, in_channels=64, height=224, width=224):
    return [torch.randn(batch_size, in_channels, height, width)]


input_names = ["x"]
