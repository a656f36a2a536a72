# The linear layer of a mixture of experts: a router has chosen top_k experts for each token, and
# the gates weigh their outputs. The load is uneven: some experts get many tokens, one gets none.
# Single: 256 tokens that are served together, 32 experts; multi has a step of decoding, too.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(x, weights, chosen, gates):
    """x is (tokens, features), weights (experts, outputs, features), chosen and gates (tokens,
    top_k); chosen is int64, gates are float32. y[t] = sum over j of
    gates[t, j] * (weights[chosen[t, j]] @ x[t]). get_inputs draws distinct experts for a token; an
    expert that is named twice counts twice."""
    y = torch.zeros(x.size(0), weights.size(1), dtype=gates.dtype, device=x.device)
    for expert in range(weights.size(0)):
        token, j = torch.where(chosen == expert)
        products = F.linear(computable(x[token]), computable(weights[expert]))
        y.index_add_(0, token, products * gates[token, j, None])
    return y.to(x.dtype)


class Model(nn.Module):
    def forward(self, x, weights, chosen, gates, fn=forward_fn):
        return fn(x, weights, chosen, gates)


def get_inputs(num_tokens=256, num_experts=32, top_k=4, num_features=2048, num_output_features=1024,
               dtype="bfloat16"):
    kind = getattr(torch, dtype)
    x = torch.randn(num_tokens, num_features) * (0.3 + 1.4 * torch.rand(num_tokens, 1))
    weights = torch.randn(num_experts, num_output_features, num_features) / num_features ** 0.5
    weights *= 0.3 + 1.4 * torch.rand(num_experts, 1, 1)
    logits = torch.randn(num_tokens, num_experts) + torch.randn(num_experts)  # some are popular
    if num_experts > top_k:
        logits[:, torch.randint(num_experts, (1,))] = float("-inf")  # this one gets no token
    largest, chosen = logits.topk(top_k, dim=1)
    return [x.to(kind), weights.to(kind), chosen, torch.softmax(largest, dim=1)]


input_names = ["x", "weights", "chosen", "gates"]
