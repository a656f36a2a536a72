# Gating of a mixture of experts: each token goes to the k experts of largest probability, whose
# probabilities become its weights. Single: a batch of 16384 tokens in a model of 128 experts that
# uses 8 for each token. Tokens are decided to different degrees, and some experts are popular.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def widened(x):
    """Probabilities are float32, or float64 if the logits are."""
    return x if x.dtype == torch.float64 else x.float()


def forward_fn(logits, k):
    """logits is (tokens, experts), and p[t] the softmax of its row t. Returns weights and indices,
    (tokens, k) both: indices[t] are the experts of the k largest p[t], the largest first, and
    weights[t, i] = p[t, indices[t, i]] / sum over j of p[t, indices[t, j]]. Of experts that are
    equally probable any may be first."""
    probabilities = torch.softmax(widened(logits), dim=-1)
    weights, indices = torch.topk(probabilities, k, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), indices


class Model(nn.Module):
    def forward(self, logits, k, fn=forward_fn):
        return fn(logits, k)


def get_inputs(num_tokens=16384, num_experts=128, k=8, dtype="bfloat16"):
    decided = 0.3 + 3 * torch.rand(num_tokens, 1)  # the size of a token's logits
    popularity = 0.4 * torch.randn(num_experts)
    logits = decided * (torch.randn(num_tokens, num_experts) + popularity)
    return [logits.to(getattr(torch, dtype)), k]


input_names = ["logits", "k"]
