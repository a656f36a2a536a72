# Cross entropy of each token over a large vocabulary, and its gradient, which takes the place of
# the logits: so training needs no second tensor of their size. Tokens that do not count, such as
# prompts and padding, have the target -100. Single: 2048 tokens and Llama 3's vocabulary. Multi:
# also those of GPT-2, Llama 2 and Gemma 3.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def widened(x):
    """Losses are computed in float32 at least; the run in float64 keeps its type."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def forward_fn(logits, target, scale):
    """logits is (tokens, vocabulary), target (tokens) of int64. Returns the losses: with
    t = target[i], y[i] is the logarithm of the sum over j of exp(logits[i, j]), minus logits[i, t];
    0 if t = -100. Changes logits to the gradient of the sum of all losses, times scale:
    (exp(logits[i, j]) / sum over k of exp(logits[i, k]) - (1 if j = t else 0)) * scale, or 0 if
    t = -100. So scale = 1 / tokens is the gradient of the mean."""
    counts = target != -100
    index = torch.where(counts, target, 0).unsqueeze(1)
    log_softmax = torch.log_softmax(widened(logits), dim=1)
    losses = torch.where(counts, -log_softmax.gather(1, index).squeeze(1), 0)
    gradient = log_softmax.exp()
    gradient.scatter_add_(1, index, torch.full_like(index, -1, dtype=gradient.dtype))
    logits.copy_(torch.where(counts.unsqueeze(1), gradient * scale, 0))
    return losses


class Model(nn.Module):
    def forward(self, logits, target, scale, fn=forward_fn):
        return fn(logits, target, scale)


def get_inputs(num_tokens=2048, vocabulary=128256, dtype="bfloat16"):
    # A model considers a part of the vocabulary: some 64 candidates of a row share most of its
    # probability, so their gradients matter beside the 1 of a target, to 16 bits too. Each column is
    # a candidate of some row; each row has one among the middle columns and one among the last.
    # Rows differ in spread and in offset.
    rows, columns = torch.arange(num_tokens).unsqueeze(1), torch.arange(vocabulary)
    logits = torch.randn(num_tokens, vocabulary)
    logits *= 0.25 + 0.5 * torch.rand(num_tokens, 1)
    logits += 4 * torch.randn(num_tokens, 1)
    distance = max(vocabulary // 64, 1)
    first = (rows * 0.618034 % 1 * distance).long()
    logits += 11.0 * ((columns - first) % distance == 0)
    for last in min(vocabulary // 2 + 7, vocabulary - 1), vocabulary - 1:
        logits[rows, last - rows * 5 % min(16, vocabulary // 2)] += 13.0
    target = torch.randint(vocabulary, (num_tokens,))
    target[0], target[-1] = vocabulary - 1, 0
    # Half of the targets are what the model expects.
    tokens = torch.arange(0, num_tokens, 2)
    logits[tokens, target[tokens]] += 15
    # One token of 8 does not count; it may be anywhere.
    target[torch.randperm(num_tokens)[:num_tokens // 8]] = -100
    # Training in float16 scales losses, as most of its gradients would be zero otherwise.
    scale = (65536 if dtype == "float16" else 1) / num_tokens
    return [logits.to(getattr(torch, dtype)), target, scale]


input_names = ["logits", "target", "scale"]
