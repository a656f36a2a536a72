# The gradient of top-k gating of a mixture of experts with respect to the logits. Single: a batch
# of 16384 tokens in a model of 128 experts that uses 8 for each token. A token's logits all
# differ, since the gradient jumps where the last selected expert is as probable as the next one.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def widened(x):
    """Weights are float32, or float64 if the logits are."""
    return x if x.dtype == torch.float64 else x.float()


def forward_fn(logits, k):
    """logits is (tokens, experts). Returns weights and indices, (tokens, k) both: indices[t] are
    the experts of the k largest logits of token t, the largest first, and weights[t] the softmax of
    these logits. These are the weights of func_forward.py: the sum of all probabilities cancels."""
    selected, indices = torch.topk(widened(logits), k, dim=-1)
    return torch.softmax(selected, dim=-1), indices


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # cupel sets it

    @staticmethod
    def forward(ctx, logits, k):
        weights, indices = forward_fn(logits, k)
        ctx.save_for_backward(logits, indices)
        ctx.mark_non_differentiable(indices)
        return weights, indices

    @staticmethod
    def backward(ctx, grad_weights, grad_indices):
        """With e = indices[t, i], w = weights[t] and g = grad_weights[t]:
        grad_logits[t, e] = w[i] * (g[i] - sum over j of w[j] * g[j]). It is zero for all other
        experts, and has the type of logits."""
        logits, indices = ctx.saved_tensors
        return AutogradFunction.backward_fn(grad_weights, logits, indices), None


class Model(nn.Module):
    def forward(self, logits, k, fn=forward_fn):
        return fn(logits, k)


def get_inputs(num_tokens=16384, num_experts=128, k=8, dtype="bfloat16"):
    places = torch.rand(num_tokens, num_experts).argsort(dim=-1)  # of the logits in their row
    places = places + 0.3 + 0.4 * torch.rand(num_tokens, num_experts)
    logits = torch.erfinv(2 * places / num_experts - 1)  # normal numbers with gaps between them
    decided = 0.4 + 4 * torch.rand(num_tokens, 1)  # the size of a token's logits
    return [(decided * logits).to(getattr(torch, dtype)).requires_grad_(), k]


input_names = ["logits", "k"]
