# The tokens are gathered from the cache, then PyTorch's attention runs. Query heads that share a
# key head are passed as rows of one query, so that nothing is repeated.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F


def sdpa(query, key_cache, value_cache, block_table, lengths):
    key, value = (cache[block_table].flatten(1, 2).transpose(1, 2)
                  for cache in (key_cache, value_cache))
    is_used = torch.arange(key.size(2), device=key.device) < lengths[:, None]
    rows = query.unflatten(1, (key.size(1), -1))
    attended = F.scaled_dot_product_attention(rows, key, value, attn_mask=is_used[:, None, None])
    return attended.flatten(1, 2)
