# FlashAttention-3's forward kernels, as a wheel for Hopper packages them.
# SPDX-License-Identifier: Apache-2.0
requires = ["fa3-fwd"]


def flash_attention_3(query, key, value):
    from fa3_fwd_interface import flash_attn_func
    heads_inside = (t.transpose(1, 2) for t in (query, key, value))
    return flash_attn_func(*heads_inside).transpose(1, 2).contiguous()
