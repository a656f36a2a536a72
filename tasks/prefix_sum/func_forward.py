# Inclusive prefix sums along the rows of a matrix; with 32000 columns as in top-p sampling from a
# language model's vocabulary.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x):
    """y[r, c] = sum over j <= c of x[r, j]."""
    return torch.cumsum(x, dim=-1, dtype=x.dtype)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(num_rows=4096, num_columns=4096, dtype="float32"):
    if dtype == "int32":
        return [torch.randint(-1000, 1000, (num_rows, num_columns), dtype=torch.int32)]
    return [torch.randn(num_rows, num_columns).to(getattr(torch, dtype))]


input_names = ["x"]
