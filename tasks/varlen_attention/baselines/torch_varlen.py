# PyTorch's function for sequences of different lengths (2.10 and later), whose arguments changed.
# SPDX-License-Identifier: Apache-2.0
import inspect


def torch_varlen(query, key, value, cu_seqlens, max_seqlen, causal):
    from torch.nn.attention.varlen import varlen_attn
    accepted = inspect.signature(varlen_attn).parameters
    wanted = {"is_causal": causal, "window_size": (-1, 0 if causal else -1), "enable_gqa": True}
    keywords = {name: x for name, x in wanted.items() if name in accepted}
    return varlen_attn(query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, **keywords)
