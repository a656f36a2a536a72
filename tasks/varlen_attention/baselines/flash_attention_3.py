# FlashAttention-3's forward kernels, as a wheel for Hopper packages them.
# SPDX-License-Identifier: Apache-2.0
requires = ["fa3-fwd"]


def flash_attention_3(query, key, value, cu_seqlens, max_seqlen, causal):
    from fa3_fwd_interface import flash_attn_varlen_func
    return flash_attn_varlen_func(query, key, value, cu_seqlens_q=cu_seqlens,
                                  cu_seqlens_k=cu_seqlens, max_seqlen_q=max_seqlen,
                                  max_seqlen_k=max_seqlen, causal=causal)
