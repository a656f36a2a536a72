# How often each value occurs.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(values, bins):
    """values: int64 in [0, bins). int64 [bins]."""
    return torch.zeros(bins, dtype=torch.int64).scatter_add_(0, values, torch.ones_like(values))


class Model(nn.Module):
    def __init__(self, bins=64):
        super().__init__()
        self.bins = bins

    def forward(self, values, fn=forward_fn):
        return fn(values, self.bins)


def get_inputs(count=5000, bins=64):
    return [torch.randint(bins, (count,))]


input_names = ["values"]
