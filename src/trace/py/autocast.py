# Automatic mixed precision. PyTorch casts arguments of operators on CUDA tensors while torch.autocast("cuda") is on. A
# program's tensors are CPU tensors inside, which that does not touch, so this file casts them: the lists are those of
# ATen/autocast_mode.h. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def operators(names: str) -> frozenset[str]:
    return frozenset("aten::" + name for name in names.split())


LOW = operators(
    "_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu "
    "_prelu_kernel addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul "
    "linalg_multi_dot scaled_dot_product_attention")
FLOAT32 = operators(
    "__rpow__ rdiv acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm "
    "native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm frobenius_norm nuclear_norm cosine_similarity "
    "poisson_nll_loss cosine_embedding_loss nll_loss nll_loss_forward nll_loss2d nll_loss2d_forward hinge_embedding_loss kl_div l1_loss "
    "smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss multilabel_margin_loss_forward "
    "soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist _pdist_forward "
    "cdist _cdist_forward _euclidean_dist renorm logsumexp prod softmax _softmax log_softmax _log_softmax cumprod cumsum "
    "linalg_vector_norm linalg_matrix_norm sum norm upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa")
WIDEST = operators(
    "addcdiv addcmul atan2 bilinear cross linalg_cross dot vdot grid_sampler grid_sampler_2d grid_sampler_3d index_put "
    "tensordot scatter_add cat stack")
BANNED = "aten::binary_cross_entropy"


def eligible(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.dtype != torch.float64
            and value.dtype.itemsize > 1)


def cast(value: Any, to: torch.dtype, convert: Callable[[torch.Tensor, torch.dtype], Any]) -> Any:
    """`value`, an argument or a list of them, with tensors in type `to`."""
    if isinstance(value, (list, tuple)):
        return type(value)(cast(item, to, convert) for item in value)
    return convert(value, to) if eligible(value) and value.dtype != to else value


class Autocast:
    """What torch.autocast has turned on. PyTorch hides its own state from code that runs below its dispatcher."""

    def __init__(self) -> None:
        self.on = {"cuda": False, "cpu": False}

    def install(self) -> None:
        for module in (torch, torch._C):
            module.set_autocast_enabled, module.is_autocast_enabled = self.turn, self.is_on  # type: ignore[assignment]
            module.set_autocast_cpu_enabled = lambda on: self.turn("cpu", on)  # type: ignore[assignment]
            module.is_autocast_cpu_enabled = lambda: self.is_on("cpu")  # type: ignore[assignment]

    def turn(self, *given: Any) -> None:
        """torch.set_autocast_enabled(device, on); earlier versions have no device, which means CUDA."""
        device, on = given if len(given) == 2 else ("cuda", *given)
        self.on[device] = bool(on)

    def is_on(self, device: str = "cuda") -> bool:
        return self.on.get(device, False)

    def type_of(self, schema: Any, tensors: list[torch.Tensor], dtype: torch.dtype | None) -> torch.dtype | None:
        """The type to which an operator's arguments are cast; None if it takes them as they are. `dtype`: the
        operator's own argument."""
        if "out" in schema.overload_name or dtype is not None or not any(eligible(t) for t in tensors):
            return None
        if schema.name == BANNED:
            raise RuntimeError("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.")
        if schema.name in LOW:
            return torch.get_autocast_dtype("cuda")
        if schema.name in FLOAT32:
            return torch.float32
        if schema.name not in WIDEST:
            return None
        types = {t.dtype for t in tensors if eligible(t)}
        return torch.float32 if len(types) > 1 else types.pop()
