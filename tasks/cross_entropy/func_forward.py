# Cross entropy of each token over a large vocabulary, as in the training of language models. Tokens
# that do not count, such as prompts and padding, have the target -100. Losses are float32 in every
# case. Single: 4096 tokens and GPT-2's vocabulary. Multi: also those of Llama 2 and 3 and Gemma 3.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def widened(x):
    """Losses are computed in float32 at least; the run in float64 keeps its type."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def forward_fn(logits, target):
    """logits is (tokens, vocabulary), target (tokens) of int64. With t = target[i]: y[i] is the
    logarithm of the sum over j of exp(logits[i, j]), minus logits[i, t]; 0 if t = -100."""
    return F.cross_entropy(widened(logits), target, ignore_index=-100, reduction="none")


class Model(nn.Module):
    def forward(self, logits, target, fn=forward_fn):
        return fn(logits, target)


def get_inputs(num_tokens=4096, vocabulary=50257, dtype="float32"):
    # Rows differ in spread and in offset. Half of the targets are what the model expects.
    logits = torch.randn(num_tokens, vocabulary)
    logits *= 0.5 + 3 * torch.rand(num_tokens, 1)
    logits += 4 * torch.randn(num_tokens, 1)
    target = torch.randint(vocabulary, (num_tokens,))
    target[0], target[-1] = vocabulary - 1, 0
    tokens = torch.arange(0, num_tokens, 2)
    logits[tokens, target[tokens]] += 8
    # One token of 8 does not count; it may be anywhere.
    target[torch.randperm(num_tokens)[:num_tokens // 8]] = -100
    return [logits.to(getattr(torch, dtype)), target]


input_names = ["logits", "target"]
