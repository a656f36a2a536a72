import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer with a low-rank adapter, as serving stacks apply it: silu(x W^T + bias + scale (x A^T) B^T)."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, weight, bias, a, b):
        """x: (tokens, in_features); weight: (out_features, in_features); bias: (out_features); a: (rank, in_features);
        b: (out_features, rank); all bfloat16."""
        base = torch.nn.functional.linear(x, weight, bias)
        adapter = torch.nn.functional.linear(torch.nn.functional.linear(x, a), b)
        return torch.nn.functional.silu(base + self.scale * adapter)


tokens = 4096
in_features = 2048
out_features = 4096
rank = 16


def get_inputs():
    bf16 = torch.bfloat16
    return [torch.randn(tokens, in_features, dtype=bf16), torch.randn(out_features, in_features, dtype=bf16) * 0.02,
            torch.randn(out_features, dtype=bf16), torch.randn(rank, in_features, dtype=bf16) * 0.02,
            torch.randn(out_features, rank, dtype=bf16)]


def get_init_inputs():
    return [2.0]
