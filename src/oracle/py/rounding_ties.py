# Which integers are right where a reference rounds a number that lies within rounding of a tie: 63.5 in float64
# may be 63.499996 in float32, and a correct kernel may give either neighbour. How close that is follows from
# PyTorch's own error in the numbers that it rounds; if they are exact, so must be the kernel's result.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import float64_place
from tensor_values import roundoff

# A number is near a tie if this many errors of PyTorch reach it. The factor of float32 leaves room for another
# order of summation and for fast intrinsics, as that of E does. Kernels of 16-bit types compute in float32.
FACTOR, SHORT_FACTOR = 16, 2
SHARE = 0.9  # the part of the elements that have at most PyTorch's error: others follow earlier ties
MOST = 1 / 8  # the largest distance to a tie, in steps of the integers
MOVE = 2.0 ** -22  # of the inputs, to find numbers that do not depend on them
SAMPLE, LARGEST = 1 << 16, 1 << 24  # elements that are measured, and that an operand may have

TO_NEAREST = ("round", "round_")
CUTS = ("floor", "floor_", "ceil", "ceil_", "trunc", "trunc_", "fix", "fix_")
CASTS = ("to", "type", "type_as", "int", "long", "short", "char", "byte")


class Rounding:
    """The operand of a call that rounds to integers, in PyTorch's own run. `ties`: their fraction, 0.5 or 0."""
    __slots__ = ("moved", "operand", "ties")

    def __init__(self, operand: torch.Tensor, ties: float) -> None:
        self.operand, self.ties = operand.detach().clone(), ties
        self.moved: torch.Tensor | None = None  # in a float64 run of moved inputs

    def observe(self, moved: torch.Tensor) -> None:
        self.moved = moved.detach().to(torch.float64).clone()

    def leaning(self, exact: torch.Tensor, direction: int) -> torch.Tensor | None:
        """The operand `exact` of the float64 run, with the numbers near a tie moved below it (-1) or above
        it (1). None if no number is near."""
        if exact.shape != self.operand.shape or not exact.is_floating_point():
            return None
        if self.moved is None or self.moved.shape != exact.shape:
            return None
        own = float64_place.to_place_of(self.operand, exact).to(torch.float64)
        exact = exact.detach().to(torch.float64)
        if bool((is_whole(own) & is_whole(exact)).all()):
            return None  # nothing is rounded
        finite = torch.isfinite(exact)
        margin = margin_of(own, exact, self.operand.dtype).clamp(max=MOST)
        tie = (exact - self.ties).round() + self.ties
        near = finite & ((exact - tie).abs() <= margin) & (margin > 0)
        near &= exact != self.moved  # what a clamp gives is no tie, although other numbers have an error
        return torch.where(near, tie + direction * margin, exact) if bool(near.any()) else None


class Scatter:
    """Moves each number by an amount of its own, so that ratios and differences of two change, too."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        self.generator.manual_seed(1)

    def __call__(self, exact: torch.Tensor) -> torch.Tensor:
        share = torch.rand(exact.shape, generator=self.generator, dtype=torch.float64).to(exact.device)
        return exact * (1 + MOVE * (1 + share))


def is_whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor == tensor.round()


def margin_of(own: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """By how much correct kernels may differ from the float64 numbers `exact`, of which PyTorch's own run has
    `own`, of that type. Zeros if these are exact."""
    finite = torch.isfinite(exact)
    size = exact.abs().masked_fill(~finite, 0)
    scale = size.clamp(min=max(float(size.square().mean().sqrt()), torch.finfo(torch.float64).tiny))
    error = usual_error((own - exact).abs() / scale)
    is_wide = not dtype.is_floating_point or roundoff(dtype) <= roundoff(torch.float32)
    return (FACTOR if is_wide else SHORT_FACTOR) * error * scale


def usual_error(errors: torch.Tensor) -> float:
    """The error that SHARE of the elements do not exceed."""
    flat = errors.flatten()
    flat = flat[::-(-flat.numel() // SAMPLE)].nan_to_num(0, math.inf)
    return float(flat.kthvalue(max(1, math.ceil(SHARE * flat.numel()))).values)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "")


def operand_of(args: tuple[Any, ...]) -> torch.Tensor | None:
    """The floating-point tensor that the call gets first, if it is usable."""
    first = args[0] if args else None
    usable = isinstance(first, torch.Tensor) and first.is_floating_point() and 0 < first.numel() <= LARGEST
    return first if usable else None


def before_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rounding | None:
    """If the call rounds a tensor to whole numbers, its operand. The call may change it."""
    name, operand = name_of(function), operand_of(args)
    if operand is None or name not in TO_NEAREST + CUTS or kwargs.get("decimals"):
        return None
    return Rounding(operand, 0.5 if name in TO_NEAREST else 0.0)


def after_call(function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Rounding | None:
    """If the call converts a tensor to integers, its operand."""
    operand = operand_of(args)
    if operand is None or not is_conversion(function, result):
        return None
    return Rounding(operand, 0.0)


def is_conversion(function: Callable[..., Any], result: Any) -> bool:
    """True if a call for a floating-point tensor converts it to integers."""
    return (name_of(function) in CASTS and isinstance(result, torch.Tensor) and
            not result.dtype.is_floating_point and not result.dtype.is_complex and result.dtype != torch.bool)
