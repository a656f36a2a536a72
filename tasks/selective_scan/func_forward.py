# The selective scan of Mamba, forward: each channel has a small state that decays and is fed at
# each token, both by amounts that depend on the token. Single: two prompts of 2048 tokens in the
# model of 370 million parameters (2048 inner channels); multi has other models, a step of training,
# and two vision models (one with a single number as the state).
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def scan(decay, x):
    """h[t] = decay[t] * h[t-1] + x[t] along the last dimension. After each step, x[t] is the state
    that the last 2, 4, 8 ... tokens give; decay has the products of as many decays."""
    distance = 1
    decay = decay[..., 1:]
    while distance < x.size(-1):
        later = x[..., distance:] + decay * x[..., :-distance]
        x = torch.cat((x[..., :distance], later), dim=-1)
        decay = decay[..., distance:] * decay[..., :-distance]
        distance *= 2
    return x


def forward_fn(u, delta, A, B, C, D, delta_bias):
    """u and delta are (batch, channels, tokens), A (channels, state), B and C (batch, state,
    tokens), D and delta_bias (channels); A, D and delta_bias are float32. With
    d = softplus(delta + delta_bias), for each channel and each n of its state:
    h[n, t] = exp(d[t] * A[n]) * h[n, t-1] + d[t] * B[n, t] * u[t], h being 0 before the first
    token; y[t] = D * u[t] + sum over n of C[n, t] * h[n, t]. The arithmetic is float32."""
    wide = u.float()
    d = F.softplus(delta.float() + delta_bias[:, None])
    decay = torch.exp(d[:, :, None] * A[:, :, None])
    h = scan(decay, (d * wide)[:, :, None] * B.float()[:, None])
    y = (C.float()[:, None] * h).sum(dim=2) + D[:, None] * wide
    return y.to(u.dtype)


class Model(nn.Module):
    def forward(self, u, delta, A, B, C, D, delta_bias, fn=forward_fn):
        return fn(u, delta, A, B, C, D, delta_bias)


def get_inputs(batch_size=2, num_channels=2048, num_tokens=2048, state_size=16, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    size = 0.3 + 2 * torch.rand(batch_size, num_channels, 1)  # channels differ
    u = size * torch.randn(batch_size, num_channels, num_tokens)
    delta = torch.randn(batch_size, num_channels, num_tokens)
    # Trained models scatter around Mamba's initial A, -1, -2, -3 ... The steps d are from 0.001 to
    # 0.02, times what delta adds. So states last for hundreds of tokens, and rounded ones show.
    A = -torch.arange(1, state_size + 1) * torch.exp(torch.randn(num_channels, state_size))
    B, C = (2 * torch.randn(batch_size, state_size, num_tokens) for _ in range(2))
    D = 0.3 * torch.randn(num_channels)
    typical = 0.001 * 20 ** torch.rand(num_channels)
    delta_bias = torch.log(torch.expm1(typical))  # softplus's inverse
    return [u.to(kind), delta.to(kind), A, B.to(kind), C.to(kind), D, delta_bias]


input_names = ["u", "delta", "A", "B", "C", "D", "delta_bias"]
