# A decoding step of attention with a paged cache, forward: each sequence has one new token, and its
# keys and values lie in blocks that are anywhere in a pool, as in vLLM. Single: 64 sequences of up
# to 2048 tokens in a 4096-wide transformer with 8 key heads.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

STALE = 50  # factor of numbers in slots that no sequence uses


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(query, key_cache, value_cache, block_table, lengths):
    """query is (batch, heads, size), the caches are (blocks, block_size, kv_heads, size),
    block_table is (batch, most_blocks), lengths is (batch). Token t of sequence b is in slot
    t % block_size of block block_table[b, t / block_size]. Query head h uses the heads
    h / (heads / kv_heads) of the caches.
    y[b] = sum over t < lengths[b] of w[t] * value[t], w being the softmax over these t of
    query[b] . key[t] / sqrt(size). Other slots and entries of block_table have no effect."""
    key, value = (cache[block_table.long()].flatten(1, 2).transpose(1, 2)
                  for cache in (key_cache, value_cache))  # (batch, kv_heads, tokens, size)
    is_used = torch.arange(key.size(2), device=key.device) < lengths[:, None]
    # Values that are not used become zeros, since 0 times NaN would be NaN. This widens value, too.
    zero = computable(torch.zeros(1, dtype=value.dtype, device=value.device))
    value = torch.where(is_used[:, None, :, None], value, zero)
    query = query.unflatten(1, (key.size(1), -1))  # heads that share keys, side by side
    is_used = is_used[:, None, None]
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=is_used).flatten(1, 2)
    scores = computable(query) @ computable(key).transpose(-2, -1) / query.size(-1) ** 0.5
    weights = torch.softmax(scores.masked_fill(~is_used, float("-inf")), dim=-1)
    return (weights @ value).flatten(1, 2).to(query.dtype)


class Model(nn.Module):
    def forward(self, query, key_cache, value_cache, block_table, lengths, fn=forward_fn):
        return fn(query, key_cache, value_cache, block_table, lengths)


def get_inputs(batch_size=64, num_heads=32, num_kv_heads=8, num_tokens=2048, head_size=128,
               block_size=16, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    most_blocks = (num_tokens + block_size - 1) // block_size
    # The lengths of a pair add up to num_tokens + 1: at most most_blocks + 1 blocks. One pair has
    # the lengths num_tokens and 1. A few blocks of the pool stay unused.
    pairs = (batch_size + 1) // 2
    num_blocks = pairs * (most_blocks + 2)
    first = torch.randint(1, num_tokens + 1, (pairs,))
    first[0] = num_tokens
    lengths = torch.cat((first, num_tokens + 1 - first))[:batch_size][torch.randperm(batch_size)]

    # Past a sequence's last block, its row goes on with blocks of other sequences.
    taken = (lengths + block_size - 1) // block_size
    places = (taken.cumsum(0) - taken)[:, None] + torch.arange(most_blocks)
    block_table = torch.randperm(num_blocks)[places % num_blocks]

    tokens = (lengths[:, None] - block_size * torch.arange(most_blocks)).clamp(0, block_size)
    filled = torch.zeros(num_blocks, dtype=torch.int64)
    filled.index_add_(0, block_table.flatten(), tokens.flatten())
    is_stale = torch.arange(block_size) >= filled[:, None]
    factor = torch.where(is_stale, STALE, 1)[:, :, None, None]
    caches = [(torch.randn(num_blocks, block_size, num_kv_heads, head_size) * factor).to(kind)
              for _ in range(2)]
    sharpness = 0.5 + 3 * torch.rand(batch_size, num_heads, 1)  # some heads look at few tokens
    query = (sharpness * torch.randn(batch_size, num_heads, head_size)).to(kind)
    return [query, *caches, block_table.int(), lengths.int()]


input_names = ["query", "key_cache", "value_cache", "block_table", "lengths"]
