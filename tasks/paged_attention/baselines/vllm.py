# FlashAttention as vLLM packages it: version 3 on Hopper, otherwise 2.
# SPDX-License-Identifier: Apache-2.0
import torch

requires = ["vllm"]


def vllm(query, key_cache, value_cache, block_table, lengths):
    from vllm.vllm_flash_attn.flash_attn_interface import (
        flash_attn_varlen_func,
        is_fa_version_supported,
    )
    return flash_attn_varlen_func(
        query, key_cache, value_cache, max_seqlen_q=1,
        cu_seqlens_q=torch.arange(len(query) + 1, dtype=torch.int32, device=query.device),
        max_seqlen_k=block_table.size(1) * key_cache.size(1), seqused_k=lengths,
        block_table=block_table, fa_version=3 if is_fa_version_supported(3) else 2)
