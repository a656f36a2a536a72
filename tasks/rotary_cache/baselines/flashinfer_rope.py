# FlashInfer's rotation (float16 and bfloat16 only), then compiled writes to the caches.
# SPDX-License-Identifier: Apache-2.0
import torch

requires = ["flashinfer-python"]


@torch.compile(mode="max-autotune-no-cudagraphs")
def write(key, value, key_cache, value_cache, slot):
    # Padding repeats what the token with the largest slot writes; at least one token must have one.
    tokens = torch.arange(slot.size(0), device=slot.device)
    source = torch.where(slot < 0, slot.argmax(), tokens)
    key_cache.index_put_((slot[source],), key[source])
    value_cache.index_put_((slot[source],), value[source])


def flashinfer_rope(query, key, value, positions, cos_sin, key_cache, value_cache, slot):
    from flashinfer.rope import apply_rope_with_cos_sin_cache
    query_out, key_out = apply_rope_with_cos_sin_cache(
        positions, query.flatten(1), key.flatten(1), query.size(2), cos_sin, is_neox=True)
    write(key_out.view_as(key), value, key_cache, value_cache, slot)
    return query_out.view_as(query)
