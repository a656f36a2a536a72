# torch.compile, which fuses the rotations with the writes.
# SPDX-License-Identifier: Apache-2.0
import torch


def rotated(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    both = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(both, dim=-1).to(x.dtype)


@torch.compile(mode="max-autotune-no-cudagraphs")
def max_autotune(query, key, value, positions, cos_sin, key_cache, value_cache, slot):
    cosine, sine = cos_sin[positions].unsqueeze(1).chunk(2, dim=-1)
    # To leave out padding, the host would have to wait for its number. So padding repeats what the
    # token with the largest slot writes; at least one token must have a slot.
    tokens = torch.arange(slot.size(0), device=slot.device)
    source = torch.where(slot < 0, slot.argmax(), tokens)
    key_cache.index_put_((slot[source],), rotated(key, cosine, sine)[source])
    value_cache.index_put_((slot[source],), value[source])
    return rotated(query, cosine, sine)
