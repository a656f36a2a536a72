# Rows of a table by index.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(indices, table):
    """indices: int64 [tokens]; table: [words, columns]."""
    return table[indices]


class Model(nn.Module):
    def __init__(self, words=200, columns=128):
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, columns))

    def forward(self, indices, fn=forward_fn):
        return fn(indices, self.table)


def get_inputs(tokens=96, words=200):
    return [torch.randint(words, (tokens,))]


input_names = ["indices"]
