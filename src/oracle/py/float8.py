# The two floating-point types of 8 bits, for which PyTorch lacks most arithmetic (docs/judging.md,
# "8-bit floats"). Computes with them in float32 and float64. Imported after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
# Kinds of other inputs (distributions.py) that leave tensors of a type as they are: scaled by 2^-10,
# all numbers would be zero; 1000 deviations from zero, all would be equal; e4m3fn has no infinity.
KEEPS = {"tiny": TYPES, "huge_offset": TYPES, "large": TYPES, "infinity": TYPES[:1]}
TENSOR_WISE, ROW_WISE = 0, 1  # torch.nn.functional.ScalingType


def is_float8(dtype: torch.dtype) -> bool:
    return dtype in TYPES


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or the exact float32 values of a float8 tensor."""
    return tensor.to(torch.float32) if is_float8(tensor.dtype) else tensor


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """torch.equal for all types."""
    return a.dtype == b.dtype and torch.equal(wide(a), wide(b))


def like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A tensor of the type and strides of `tensor` with other values. Float8 saturates."""
    if is_float8(tensor.dtype):
        largest = torch.finfo(tensor.dtype).max
        finite = torch.isfinite(values)
        values = torch.where(finite, values.clamp(-largest, largest), values)
    return torch.empty_like(tensor).copy_(values)


def held(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 values with all their digits, but beyond the largest float8 what PyTorch's cast gives:
    that number or an infinity, depending on the type. Raises NotImplementedError if the cast gives NaN,
    as PyTorch before 2.13 does for float8_e4m3fn: the candidates' headers saturate."""
    largest = torch.finfo(dtype).max
    with _disable_current_modes():  # one of them turns casts into float64
        cast = values.to(torch.float32).to(dtype).to(torch.float64)
        beyond = values.abs() > largest
        if bool((beyond & cast.isnan()).any()):
            raise NotImplementedError("unsupported: the reference casts a number beyond %g to %s, which PyTorch %s "
                                      "turns into NaN; use PyTorch 2.13 or later, or clamp before the cast" %
                                      (largest, str(dtype).replace("torch.", ""), torch.__version__))
        return torch.where(beyond, cast, values)


def nearest(got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """For each element of the float8 tensor `got`, the number nearest to `truth` among those that are
    rounded to it, or its ends. Like Rule::ErrorOf (src/judge/scan.h)."""
    info = torch.finfo(got.dtype)
    least = info.eps / 2 * info.tiny  # half the distance between subnormal numbers
    got = got.to(torch.float64)
    significand, exponent = torch.frexp(got.abs())
    half = torch.ldexp(torch.full_like(got, info.eps / 4), exponent).clamp(min=least)
    is_power = (significand == 0.5) & (got.abs() > info.tiny)
    inner = torch.where(is_power, half / 2, half)
    below = torch.where(got > 0, inner, half)
    above = torch.where(got < 0, inner, half)
    return torch.minimum(torch.maximum(truth, got - below), got + above)


def step_between(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """For each element of two float8 tensors, the distance between neighbours at the larger one."""
    info = torch.finfo(a.dtype)
    larger = torch.maximum(a.to(torch.float64).abs(), b.to(torch.float64).abs())
    exponent = torch.frexp(larger)[1]
    return torch.ldexp(torch.full_like(larger, info.eps / 2), exponent).clamp(min=info.eps * info.tiny)


def applies(scale: torch.Tensor, shape: tuple[int, int]) -> bool:
    """True if a scale is one number, or one for each row of a or each column of b."""
    return scale.numel() == 1 or tuple(scale.shape) == shape


def scaled_mm(self: torch.Tensor, mat2: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
              bias: torch.Tensor | None = None, scale_result: torch.Tensor | None = None,
              out_dtype: torch.dtype | None = None, use_fast_accum: bool = False) -> torch.Tensor:
    """torch._scaled_mm in float64."""
    if not (applies(scale_a, (self.shape[0], 1)) and applies(scale_b, (1, mat2.shape[1]))):
        raise NotImplementedError("unsupported: torch._scaled_mm with scales for blocks; cupel supports "
                                  "one scale for a tensor, or one for each row and column")
    if scale_result is not None:  # PyTorch 2.13 divides by it or ignores it, depending on out_dtype
        raise NotImplementedError("unsupported: torch._scaled_mm with scale_result")
    result = torch.mm(self, mat2) * scale_a * scale_b
    return result if bias is None else result + bias


def scaled_mm_v2(self: torch.Tensor, mat2: torch.Tensor, scale_a: list[torch.Tensor], recipe_a: list[int],
                 swizzle_a: list[int], scale_b: list[torch.Tensor], recipe_b: list[int], swizzle_b: list[int],
                 bias: torch.Tensor | None, out_dtype: torch.dtype | None, contraction_dim: Sequence[int] = (),
                 use_fast_accum: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_mm in float64."""
    if any(r not in (TENSOR_WISE, ROW_WISE) for r in list(recipe_a) + list(recipe_b)):
        raise NotImplementedError("unsupported: scaled_mm with scales for blocks; cupel supports one scale "
                                  "for a tensor, or one for each row and column")
    return scaled_mm(self, mat2, scale_a[0].reshape(-1, 1), scale_b[0].reshape(1, -1), bias)


# Operators that PyTorch has for float8 only, by name, with what they compute in float64.
FORMS = {"aten._scaled_mm.default": scaled_mm, "aten._scaled_mm_v2.default": scaled_mm_v2}


def in_float64(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The result of an operator of FORMS. All tensors are float64."""
    form = FORMS[name]
    return form(**inspect.signature(form).bind(*args, **kwargs).arguments)
