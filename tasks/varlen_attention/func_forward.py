# Attention over sequences of different lengths that lie side by side, without padding, forward: as
# in training on packed texts, in prefill, and in vision encoders for images of any size. Single:
# 16 prompts of up to 2048 tokens in a 4096-wide transformer.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F

SCORES_AT_ONCE = 2 ** 28  # those of all heads together may need too much memory


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def of_heads(query, key, value, causal):
    """Of some heads of one sequence: (heads, tokens, size) each."""
    scores = computable(query) @ computable(key).transpose(-2, -1) / query.size(-1) ** 0.5
    if causal:
        tokens = query.size(1)
        later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return (torch.softmax(scores, dim=-1) @ computable(value)).to(query.dtype)


def attention(query, key, value, causal):
    """Of one sequence. query is (heads, tokens, size), key and value (kv_heads, tokens, size)."""
    if query.is_cuda:
        return F.scaled_dot_product_attention(query[None], key[None], value[None],
                                              is_causal=causal, enable_gqa=True)[0]
    shared_by = query.size(0) // key.size(0)
    if shared_by * key.size(0) != query.size(0):
        raise ValueError("the heads must be a multiple of the heads of keys and values")
    key, value = (x.repeat_interleave(shared_by, dim=0) for x in (key, value))
    at_once = max(1, SCORES_AT_ONCE // query.size(1) ** 2)
    parts = zip(*(x.split(at_once) for x in (query, key, value)))
    return torch.cat([of_heads(*part, causal) for part in parts])


def forward_fn(query, key, value, cu_seqlens, max_seqlen, causal):
    """query is (tokens, heads, size), key and value (tokens, kv_heads, size); query head h uses
    their head h / (heads / kv_heads). Sequence b has the tokens from cu_seqlens[b] up to
    cu_seqlens[b + 1], at most max_seqlen; the last of cu_seqlens is the number of tokens. Each
    token looks at all tokens of its sequence, or if `causal` at itself and those before it:
    y[t] = sum over these s of w[t, s] * value[s], w[t] being the softmax over them of
    query[t] . key[s] / sqrt(size)."""
    ends = cu_seqlens.tolist()
    parts = [attention(*(x[first:end].transpose(0, 1) for x in (query, key, value)), causal)
             for first, end in zip(ends, ends[1:]) if first < end]
    return torch.cat(parts, dim=1).transpose(0, 1).contiguous()


class Model(nn.Module):
    def forward(self, query, key, value, cu_seqlens, max_seqlen, causal, fn=forward_fn):
        return fn(query, key, value, cu_seqlens, max_seqlen, causal)


def get_inputs(batch_size=16, num_heads=32, num_kv_heads=8, max_seqlen=2048, head_size=128,
               causal=True, dtype="bfloat16"):
    kind = getattr(torch, dtype)
    # The lengths of a pair add up to max_seqlen, so that the number of tokens does not vary. One
    # sequence is empty.
    pairs = (batch_size + 1) // 2
    first = torch.randint(0, max_seqlen + 1, (pairs,))
    first[0] = max_seqlen
    lengths = torch.stack((first, max_seqlen - first), dim=1)
    if batch_size % 2 == 1:
        lengths[-1, 0] = max_seqlen  # without a partner
    lengths = lengths.flatten()[:batch_size]
    lengths = lengths[torch.randperm(batch_size)]
    cu_seqlens = F.pad(lengths.cumsum(0), (1, 0)).int()

    tokens = pairs * max_seqlen
    sharpness = 0.5 + 2 * torch.rand(1, num_heads, 1)  # some heads look at few tokens
    query = sharpness * torch.randn(tokens, num_heads, head_size)
    others = [torch.randn(tokens, num_kv_heads, head_size) for _ in range(2)]
    return [*(x.to(kind) for x in (query, *others)), cu_seqlens, max_seqlen, causal]


input_names = ["query", "key", "value", "cu_seqlens", "max_seqlen", "causal"]
