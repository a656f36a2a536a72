# Attention without a mask, forward: each query looks at all keys. Encoders, vision and diffusion
# transformers use it, and cross attention, where there are more or fewer keys than queries; several
# query heads may share a head of keys and values. Single: two images of 2048 patches in a 3072-wide
# diffusion transformer.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

SCORES_AT_ONCE = 2 ** 28  # those of all heads together may need too much memory


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def attention(query, key, value):
    """Of some heads: (heads, tokens, size) each."""
    scores = computable(query) @ computable(key).transpose(-2, -1) / query.size(-1) ** 0.5
    return (torch.softmax(scores, dim=-1) @ computable(value)).to(query.dtype)


def forward_fn(query, key, value):
    """query is (batch, heads, queries, size), key and value (batch, kv_heads, keys, size); query
    head h uses their head h / (heads / kv_heads). y[t] = sum over s of w[t, s] * value[s], w[t]
    being the softmax over s of query[t] . key[s] / sqrt(size)."""
    if query.is_cuda:  # PyTorch's fused attention is what a kernel has to beat
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    shared_by = query.size(1) // key.size(1)
    if shared_by * key.size(1) != query.size(1):
        raise ValueError("the heads must be a multiple of the heads of keys and values")
    key, value = (x.repeat_interleave(shared_by, dim=1) for x in (key, value))
    at_once = max(1, SCORES_AT_ONCE // max(1, query.size(2) * key.size(2)))
    parts = zip(*(x.flatten(0, 1).split(at_once) for x in (query, key, value)))
    return torch.cat([attention(*part) for part in parts]).view(query.shape)


class Model(nn.Module):
    def forward(self, query, key, value, fn=forward_fn):
        return fn(query, key, value)


def get_inputs(batch_size=2, num_heads=24, num_kv_heads=24, num_queries=2048, num_keys=2048,
               head_size=128, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    sharpness = 0.5 + 2 * torch.rand(batch_size, num_heads, 1, 1)  # some heads look at few keys
    query = sharpness * torch.randn(batch_size, num_heads, num_queries, head_size)
    others = [torch.randn(batch_size, num_kv_heads, num_keys, head_size) for _ in range(2)]
    return [x.to(kind) for x in (query, *others)]


input_names = ["query", "key", "value"]
