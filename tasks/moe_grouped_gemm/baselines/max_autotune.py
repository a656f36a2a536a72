# torch.compile of a batched product: every expert computes every token. It reads all weights once,
# as a grouped product does, and nothing waits for the routing.
# SPDX-License-Identifier: Apache-2.0
import torch


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(x, weights, chosen, gates):
    shares = torch.zeros(x.size(0), weights.size(0), dtype=gates.dtype, device=x.device)
    shares = shares.scatter_add(1, chosen, gates)
    products = torch.bmm(x.expand(weights.size(0), -1, -1), weights.transpose(1, 2))
    return (products * shares.t()[:, :, None]).sum(dim=0).to(x.dtype)
