import torch
import torch.nn as nn


class Model(nn.Module):
    """x @ w.T of float8 (e4m3) matrices with a scale for each row of x and each row of w; the result is bfloat16."""

    def __init__(self):
        super().__init__()

    def forward(self, x, x_scale, w, w_scale):
        y = torch.matmul(x.to(torch.float32), w.to(torch.float32).t())
        return (y * x_scale.unsqueeze(1) * w_scale.unsqueeze(0)).to(torch.bfloat16)


num_tokens = 2048
in_features = 2048
out_features = 2048


def get_inputs():
    return [torch.randn(num_tokens, in_features).to(torch.float8_e4m3fn), torch.rand(num_tokens) + 0.5,
            torch.randn(out_features, in_features).to(torch.float8_e4m3fn), torch.rand(out_features) * 0.1]


def get_init_inputs():
    return []
