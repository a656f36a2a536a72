# PyTorch's softmax and topk, compiled with all of its tuning.
# SPDX-License-Identifier: Apache-2.0
import torch


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(logits, k):
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32)
    weights, indices = torch.topk(probabilities, k, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), indices
