# PyTorch's product of 4-bit weights, as torchao calls it. It wants the weights in an order of its
# own, which is made once for a layer, before its first call. It computes in bfloat16 only.
# SPDX-License-Identifier: Apache-2.0
import torch

_packed = {}  # the layer's tensors too, so that no other one takes their place in memory


def int4pack_mm(x, weights, scales, zeros):
    key = weights.data_ptr()
    if key not in _packed:
        if len(_packed) >= 8:
            _packed.clear()
        swapped = weights >> 4 | weights << 4  # the first of two features is the upper half there
        order = torch.ops.aten._convert_weight_to_int4pack(swapped, 8)
        wide = scales.float()
        offsets = (8 - zeros.float()) * wide  # it computes (integer - 8) * scale + offset
        both = torch.stack((wide, offsets), dim=2).transpose(0, 1).contiguous()
        _packed[key] = (order, both.to(torch.bfloat16), weights, scales, zeros)
    order, both = _packed[key][:2]
    y = torch.ops.aten._weight_int4pack_mm(x.to(torch.bfloat16), order, 128, both)
    return y.to(x.dtype)
