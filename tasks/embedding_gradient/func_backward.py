# The gradient of an embedding with respect to its rows. Single: 4096 tokens of a 768-wide
# transformer with a vocabulary of 50257; as in text, few words make up most of the tokens.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn
import torch.nn.functional as F


def computable(x):
    """PyTorch has few operations of 16-bit types on CPUs; there they are done in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) and not x.is_cuda else x


def forward_fn(indices, weights):
    """y[b, t] = weights[indices[b, t]]."""
    return F.embedding(indices, computable(weights)).to(weights.dtype)


class AutogradFunction(torch.autograd.Function):
    backward_fn = None  # set by whoever runs the task

    @staticmethod
    def forward(ctx, indices, weights):
        ctx.save_for_backward(indices)
        ctx.num_embeddings = weights.size(0)
        return F.embedding(indices, weights)

    @staticmethod
    def backward(ctx, grad_output):
        """grad_weights[v] = sum over all b, t with indices[b, t] == v of grad_output[b, t]."""
        indices, = ctx.saved_tensors
        return None, AutogradFunction.backward_fn(grad_output, indices, ctx.num_embeddings)


class Model(nn.Module):
    def forward(self, indices, weights, fn=forward_fn):
        return fn(indices, weights)


def get_inputs(batch_size=4, num_tokens=1024, num_embeddings=50257, num_features=768,
               dtype="float32"):
    words = torch.rand(batch_size, num_tokens) ** 3 * num_embeddings  # small ones are frequent
    weights = torch.randn(num_embeddings, num_features).to(getattr(torch, dtype))
    return [words.long().clamp(max=num_embeddings - 1), weights.requires_grad_()]


input_names = ["indices", "weights"]
