# Rotary position embedding that also writes a cache, as in a serving stack: tokens of many requests
# lie side by side, each with its position and with the slot of the cache for its key and its value.
# A batch is padded with tokens that have no slot. Single: a step of 4096 tokens in a 4096-wide
# transformer with 8 key heads, and a cache of 65536 slots; multi has steps of decoding, too.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def rotated(x, cosine, sine):
    """The table is float32, so PyTorch computes in float32 and the result is rounded once."""
    first, second = x.chunk(2, dim=-1)
    both = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(both, dim=-1).to(x.dtype)


def forward_fn(query, key, value, positions, cos_sin, key_cache, value_cache, slot):
    """query is (tokens, heads, size), key and value are (tokens, kv_heads, size), key_cache and
    value_cache (slots, kv_heads, size), positions and slot (tokens). Row p of cos_sin has the
    cosines of position p, then its sines. With i < size / 2, c = cos_sin[p, i] and
    s = cos_sin[p, i + size / 2]: y[i] = x[i] * c - x[i + size / 2] * s and
    y[i + size / 2] = x[i + size / 2] * c + x[i] * s. Returns the rotated query. Changes both
    caches: token t writes its rotated key and its value to slot[t], or nothing if that is -1. No
    two tokens have the same slot."""
    cosine, sine = cos_sin[positions].unsqueeze(1).chunk(2, dim=-1)
    kept = slot >= 0
    key_cache[slot[kept]] = rotated(key, cosine, sine)[kept]
    value_cache[slot[kept]] = value[kept]
    return rotated(query, cosine, sine)


class Model(nn.Module):
    def forward(self, query, key, value, positions, cos_sin, key_cache, value_cache, slot,
                fn=forward_fn):
        return fn(query, key, value, positions, cos_sin, key_cache, value_cache, slot)


def get_inputs(num_tokens=4096, num_heads=32, num_kv_heads=8, head_size=128, num_positions=8192,
               num_slots=65536, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    half = head_size // 2
    frequencies = 10000.0 ** (-torch.arange(half).float() / half)
    angles = torch.arange(num_positions).float()[:, None] * frequencies
    positions = torch.randint(num_positions, (num_tokens,))
    positions[::7] = num_positions - 1
    # The first and the last slot are taken first.
    others = torch.randperm(max(num_slots - 2, 0)) + 1
    slots = torch.cat((torch.tensor([0, num_slots - 1]), others))
    # Padding is 1 token of 16, and whatever does not fit into the cache; it may be anywhere.
    written = min(num_tokens - num_tokens // 16, num_slots)
    slot = torch.full((num_tokens,), -1)
    slot[torch.randperm(num_tokens)[:written]] = slots[:written]
    magnitudes = 0.25 + 2 * torch.rand(num_tokens, 1, 1)
    heads = (num_heads, num_kv_heads, num_kv_heads)
    return [
        *((torch.randn(num_tokens, h, head_size) * magnitudes).to(kind) for h in heads),
        positions,
        torch.cat((angles.cos(), angles.sin()), dim=1),
        torch.randn(num_slots, num_kv_heads, head_size).to(kind),
        torch.randn(num_slots, num_kv_heads, head_size).to(kind),
        slot,
    ]


input_names = ["query", "key", "value", "positions", "cos_sin", "key_cache", "value_cache", "slot"]
