# Attention of a decoder, backward: the gradients of queries, keys and values. As in fused attention,
# the forward pass has kept its output and the logarithms of the sums of exponentials. Single: a
# prompt of 2048 tokens in a 4096-wide transformer.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def masked_scores(query, key):
    """query[t] . key[s] / sqrt(size), minus infinity where s > t."""
    scores = computable(query) @ computable(key).transpose(-2, -1) / query.size(-1) ** 0.5
    tokens = query.size(-2)
    return scores + scores.new_full((tokens, tokens), float("-inf")).triu(1)


def for_all_heads(query, *others):
    """Keys or values, repeated for the heads of query that share them."""
    return [x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in others]


def forward_fn(query, key, value, output, logsumexp):
    """query is (batch, heads, tokens, size), key and value (batch, kv_heads, tokens, size); query
    head h uses their head h / (heads / kv_heads). y[t] = sum over s <= t of w[t, s] * value[s],
    w[t] being the softmax over s <= t of query[t] . key[s] / sqrt(size).

    output is y and logsumexp[t] the logarithm of the softmax's denominator, both computed before.
    They are constants here: w[t, s] = exp(score - logsumexp[t]), and the weights of a row add up to
    one, so that y = output + sum of w[t, s] * (value[s] - output[t])."""
    if query.is_cuda:  # PyTorch's fused attention, which keeps both itself, is what a kernel has to beat
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    key, value = for_all_heads(query, key, value)
    scores = masked_scores(query, key)
    if scores.requires_grad:  # fused attention rounds their gradients, which it multiplies again
        scores.register_hook(lambda gradient: gradient.to(query.dtype).to(gradient.dtype))
    weights = torch.exp(scores - logsumexp.unsqueeze(-1))
    known = computable(output)
    change = weights @ computable(value) - weights.sum(dim=-1, keepdim=True) * known
    return (known + change).to(query.dtype)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # cupel sets it

    @staticmethod
    def forward(ctx, query, key, value, output, logsumexp):
        ctx.save_for_backward(query, key, value, output, logsumexp)
        return output.clone()

    @staticmethod
    def backward(ctx, grad_output):
        """With g = grad_output[t], w[t, s] = exp(query[t] . key[s] / sqrt(size) - logsumexp[t]) and
        d[t, s] = w[t, s] * (g . value[s] - g . output[t]) / sqrt(size): grad_query[t] is the sum
        over s <= t of d[t, s] * key[s], and sums over t >= s and the heads that share s give
        grad_key[s], of d[t, s] * query[t], and grad_value[s], of w[t, s] * g."""
        gradients = AutogradFunction.backward_fn(grad_output, *ctx.saved_tensors)
        grad_query, grad_key, grad_value = gradients
        return grad_query, grad_key, grad_value, None, None


def with_logsumexp(query, key, value):
    """The result, and the logarithms of the softmax's denominators, as fused attention keeps them."""
    size = query.size(-1)
    if query.is_cuda and query.element_size() == 2 and size % 8 == 0 and size <= 256:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, 0.0, True)[:2]
    wide, *others = (x.float() if x.element_size() == 2 else x for x in (query, key, value))
    every_key, every_value = for_all_heads(wide, *others)
    scores = masked_scores(wide, every_key)
    output = torch.softmax(scores, dim=-1) @ every_value
    return output.to(query.dtype), torch.logsumexp(scores, dim=-1)


class Model(nn.Module):
    def forward(self, query, key, value, fn=forward_fn):
        with torch.no_grad():
            output, logsumexp = with_logsumexp(query, key, value)
        return fn(query, key, value, output, logsumexp)


def get_inputs(batch_size=1, num_heads=32, num_kv_heads=8, num_tokens=2048, head_size=128,
               dtype="bfloat16"):
    kind = getattr(torch, dtype)
    heads = (num_heads, num_kv_heads, num_kv_heads)
    query, key, value = (torch.randn(batch_size, h, num_tokens, head_size) for h in heads)
    # Tokens look most at themselves. Else the last ones, at which few look, had gradients near zero.
    query += for_all_heads(query, key)[0] * (6 / max(head_size, 1) ** 0.5)
    return [x.to(kind).requires_grad_() for x in (query, key, value)]


input_names = ["query", "key", "value"]
