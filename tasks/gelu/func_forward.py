# GELU as between the two linear layers of a transformer's block (3072 = 4 * 768 features in small
# ones). Models use both forms: the exact one (approximate="none") and the one by tanh.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, approximate):
    """approximate == "none": y = x * (1 + erf(x / sqrt(2))) / 2.
    approximate == "tanh": y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2."""
    return F.gelu(computable(x), approximate=approximate).to(x.dtype)


class Model(nn.Module):
    def __init__(self, approximate="tanh"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x, fn=forward_fn):
        return fn(x, self.approximate)


def get_inputs(num_tokens=4096, num_features=3072, dtype="float32"):
    return [torch.randn(num_tokens, num_features).to(getattr(torch, dtype))]


input_names = ["x"]
