# Rotary position embedding of queries and keys, the halves of a head being rotated against each
# other as in Llama. Single: a prompt of 4096 tokens in a 4096-wide transformer with 8 key heads;
# multi has a step of decoding, too (one token).
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def rotated(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(query, key, cosine, sine):
    """query and key are (batch, heads, tokens, size), cosine and sine (tokens, size / 2). With
    i < size / 2: y[i] = x[i] * cosine[i] - x[i + size / 2] * sine[i] and
    y[i + size / 2] = x[i + size / 2] * cosine[i] + x[i] * sine[i]."""
    cosine, sine = computable(cosine), computable(sine)
    return (rotated(computable(query), cosine, sine).to(query.dtype),
            rotated(computable(key), cosine, sine).to(key.dtype))


class Model(nn.Module):
    def forward(self, query, key, cosine, sine, fn=forward_fn):
        return fn(query, key, cosine, sine)


def get_inputs(batch_size=1, num_heads=32, num_kv_heads=8, num_tokens=4096, head_size=128,
               dtype="bfloat16"):
    kind = getattr(torch, dtype)
    first = torch.randint(4096, (1,))  # tokens that came before
    positions = (first + torch.arange(num_tokens)).float()
    frequencies = 10000.0 ** (-2 * torch.arange(head_size // 2).float() / head_size)
    angles = positions[:, None] * frequencies
    return [
        torch.randn(batch_size, num_heads, num_tokens, head_size).to(kind),
        torch.randn(batch_size, num_kv_heads, num_tokens, head_size).to(kind),
        angles.cos().to(kind),
        angles.sin().to(kind),
    ]


input_names = ["query", "key", "cosine", "sine"]
