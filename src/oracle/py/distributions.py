# Inputs that a task does not draw itself: other distributions, special values and other layouts of
# every tensor of a call (docs/judging.md, "Other inputs"). Keeps structure that the operation may
# depend on: zeros among other numbers (triangles, masks), symmetric matrices, equal halves (rotary
# embeddings), tensors of few different numbers (labels). Imported after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import torch

import float8
from carried_integers import Carried
from tensor_values import overlaps

EXTREME, EXTREMES = 1000.0, 8  # planted extremes: their factor, and the maximum number in a tensor
NEAR = 4  # columns: where a NaN is near the beginning or the end of a row
OFFSET, HUGE_OFFSET = 10.0, 1000.0  # standard deviations
TINY = 2.0 ** -10  # factor
LARGE, HEADROOM = 2.0 ** 17, 16  # factor of one tensor, and what must remain to the largest number of its type
FAR = 20.0  # factor: far below zero, the exponential of nearly every number is 0 in float32
STRUCTURE_SHARE = 64  # zeros are structure if at least one of so many elements is zero
LABELS, PROBED = 8, 4096  # a tensor with at most LABELS different numbers contains labels


def offset(t: torch.Tensor, deviations: float) -> torch.Tensor:
    return t + deviations * float(t.std(unbiased=False))


def below(t: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """Makes all numbers negative: a maximum that starts at zero is then wrong."""
    return t if is_constant(t) else -factor * offset(t, -OFFSET).abs()


def large(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Beyond what kernels take for minus infinity in a mask or in a running maximum: -1e4, -5e4."""
    highest = float(t.abs().max()) or 1.0
    return t * min(LARGE, max(1.0, torch.finfo(dtype).max / HEADROOM / highest))


def heavy(t: torch.Tensor) -> torch.Tensor:
    """Student's t with three degrees of freedom."""
    chi_squared = sum(torch.randn(t.shape).square() for _ in range(3))
    return torch.randn(t.shape) / (chi_squared / 3).sqrt()


def places(t: torch.Tensor, count: int) -> torch.Tensor:
    """Secret indices into the flattened tensor."""
    return torch.randint(t.numel(), (count,))


def planted_places(t: torch.Tensor) -> torch.Tensor:
    """One of three is near the beginning of a row, one near its end: a tile that reaches into the next row must not
    take what it finds there, not even times zero."""
    where = places(t, min(3, t.numel() // 16 + 1))
    width = t.shape[-1] if t.dim() else 1
    near = min(NEAR, width)
    if len(where) == 3:
        where[0] += int(torch.randint(near, ())) - where[0] % width
        where[1] += width - 1 - int(torch.randint(near, ())) - where[1] % width
    return where


def extremes(t: torch.Tensor) -> torch.Tensor:
    """Plants extremes at secret places, some at the ends of rows, where loops often have errors."""
    flat = t.flatten().clone()
    where = places(t, min(EXTREMES, max(1, t.numel() // 16)))
    width = t.shape[-1] if t.dim() else 1
    if len(where) == EXTREMES:
        where[:2] -= where[:2] % width
        where[2:4] += width - 1 - where[2:4] % width
    flat[where] *= EXTREME
    return flat.reshape(t.shape)


def strided_view(t: torch.Tensor) -> torch.Tensor:
    """A view of every second element of rows of twice the length. The other elements are NaN."""
    wide = torch.full(tuple(t.shape) + (2,), math.nan, dtype=t.dtype)
    view = wide[..., 0]
    view.copy_(t)
    return view


def shifted_view(t: torch.Tensor) -> torch.Tensor:
    """Contiguous, but one element after an aligned address."""
    view = torch.empty(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape)
    return view.copy_(t)


# New values from a float64 copy of the task's own tensor, which they do not change, and its type.
VALUES = {
    "usual": lambda t, _: t,
    "integers": lambda t, _: torch.randint(-2, 3, t.shape),
    "tiny": lambda t, _: t * TINY,
    "normal": lambda t, _: torch.randn(t.shape),
    "uniform": lambda t, _: torch.rand(t.shape),
    "offset": lambda t, _: offset(t, OFFSET),
    "one_offset": lambda t, _: offset(t, OFFSET),
    "heavy": lambda t, _: heavy(t),
    "constant": lambda t, _: torch.randn(()).expand(t.shape),
    "zeros": lambda t, _: torch.zeros_like(t),
    "extremes": lambda t, _: extremes(t),
    "denormals": lambda t, dtype: t * (torch.finfo(dtype).tiny / 8),
    "huge_offset": lambda t, _: offset(t, HUGE_OFFSET),
    "large": large,
    "below": lambda t, _: below(t),
    "far_below": lambda t, _: below(t, FAR),
}
# Kinds with several ways to draw, of which the first applicable one is used: the values, and whether
# tensors without a negative number (variances, probabilities) are kept.
WAYS = {"negative": [("far_below", False), ("far_below", True), ("below", False), ("below", True)]}
LAYOUTS = {"strided": strided_view, "shifted": shifted_view}
PLANTED = {"nan": math.nan, "infinity": math.inf}
OF_ANY = ("one_offset", *PLANTED, "large")  # kinds that replace one tensor: with more, the result shows nothing else


def is_constant(t: torch.Tensor) -> bool:
    flat = t.flatten()
    return all(bool((part == flat[0]).all()) for part in (flat[:PROBED], flat))


def holds_labels(t: torch.Tensor) -> bool:
    """True if the tensor has a few different numbers, at least two: classes, signs, masks, one-hot."""
    flat = t.detach().flatten()
    if t.numel() <= 2 * LABELS:
        return bool((flat == flat.round()).all()) and not is_constant(t)
    probe = flat[::max(1, flat.numel() // PROBED)].unique()
    if len(probe) > LABELS:
        return False
    kept = torch.zeros(flat.shape, dtype=torch.bool)
    for number in probe:
        kept |= flat == number
    return bool(kept.all()) and not is_constant(t)


def with_repeats_of(own: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """`t` with both halves of the last axis equal, or both numbers of each pair, if the task's own tensor has that:
    the angles of rotary embeddings."""
    size = own.shape[-1] if own.dim() else 0
    if size < 4 or size % 2 != 0:
        return t
    if torch.equal(own[..., :size // 2], own[..., size // 2:]):
        return torch.cat((t[..., :size // 2], t[..., :size // 2]), -1)
    if torch.equal(own[..., ::2], own[..., 1::2]):
        return t[..., ::2].repeat_interleave(2, -1)
    return t


def with_structure_of(own: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """`t` with the zeros, the symmetry, the repeats and the order of the task's own tensor. A constant tensor counts as
    without structure: it is an initial value, which must not stay constant."""
    if is_constant(own):
        return t
    is_square = own.dim() >= 2 and own.shape[-1] == own.shape[-2] > 1
    if is_square and torch.equal(own, own.transpose(-1, -2)):
        t = t.tril() + t.tril(-1).transpose(-1, -2)
    t = with_repeats_of(own, t)
    if is_ascending(own, 8):
        t = t.sort(-1).values
    zeros = own.numel() - int(torch.count_nonzero(own))
    is_structure = STRUCTURE_SHARE * zeros >= own.numel()  # fewer zeros are by chance
    return t.masked_fill(own == 0, 0) if is_structure else t


def is_ascending(t: torch.Tensor, fewest: int) -> bool:
    """True if each row is sorted, has at least `fewest` numbers and is not constant: offsets, boundaries, knots."""
    if t.dim() == 0 or t.shape[-1] < fewest or t.numel() == 0:
        return False
    return bool((t[..., 1:] >= t[..., :-1]).all()) and bool((t[..., -1] > t[..., 0]).all())


def all_the_same(kind: str, t: torch.Tensor) -> torch.Tensor | None:
    """An integer tensor (classes, indices, counts) filled with one of its own numbers, a random one, the smallest or
    the largest, so that it stays valid. None if its numbers do not repeat, as in a permutation, or ascend, as
    offsets do. A -1 among numbers from 0 on means that there is none, and is not taken."""
    if kind not in ("constant", "zeros", "extremes") or t.dtype == torch.bool or t.numel() < 2:
        return None
    flat = t.detach().flatten()
    if is_constant(flat) or is_ascending(t, 3):
        return None
    if int(flat.min()) == -1:
        flat = flat[flat >= 0]
    if flat.unique().numel() == flat.numel():
        return None
    number = (flat[places(flat, 1)[0]] if kind == "constant" else
              flat.min() if kind == "zeros" else flat.max())
    return torch.empty_like(t).fill_(number)


def laid_out_as(own: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """`t` with the strides of the task's own tensor, in a copy of its memory: a kernel may rely on them."""
    if own.stride() == t.stride() or overlaps(own):
        return t
    flat = torch.empty(0, dtype=own.dtype, device=own.device).set_(own.untyped_storage().clone())
    return flat.as_strided(own.shape, own.stride(), own.storage_offset()).copy_(t)


class Spread:
    """Replaces the tensors of one draw, using PyTorch's seeded generator."""

    def __init__(self, kind: str, values: str, keeps_unsigned: bool, carried: Carried,
                 chosen: int | None = None) -> None:
        """`carried`: which of the task's own numbers the reference converts to integers. They stay. `chosen`: the
        position of the tensor that a kind of OF_ANY replaces."""
        self.kind, self.values, self.keeps_unsigned, self.carried = kind, values, keeps_unsigned, carried
        self.chosen = chosen
        self.movable: list[int] = []  # the positions that a kind of OF_ANY could replace
        self.replaced = self.kept = 0  # tensors
        self.seen = 0  # tensors so far

    def values_alone(self, value: Any) -> Any:
        """As a call, but kinds that change a tensor's layout leave it as it is."""
        return value if self.kind in LAYOUTS else self(value)

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        position, self.seen = self.seen, self.seen + 1
        if not value.is_floating_point():
            made = all_the_same(self.kind, value)
            self.replaced += made is not None
            return value if made is None else made
        if value.numel() == 0 or value.dtype in float8.KEEPS.get(self.values, ()):
            return value
        value = value.detach()
        with torch.no_grad():
            if self.kind in LAYOUTS:
                self.replaced += 1
                return LAYOUTS[self.kind](value)
            own = value.double()  # old PyTorch lacks many operations in half precision
            integers = self.carried.whole_numbers(position, own)
            if holds_labels(own) or (integers is not None and bool(integers.all())):
                return value
            if self.keeps_unsigned and bool((own >= 0).all()):
                self.kept += 1
                return value
            if self.kind in OF_ANY:
                is_movable = value.numel() > 1 and (self.kind != "one_offset" or not is_constant(own))
                self.movable += [position] if is_movable else []
                if position != self.chosen:
                    return value
            self.replaced += 1
            if self.kind in PLANTED:
                flat = own.flatten().clone()
                where = planted_places(own)
                flat[where] = PLANTED[self.kind]
                flat[where[1:]] = -PLANTED[self.kind]  # NaN has a sign, too
                made = flat.reshape(own.shape)
            else:
                made = with_structure_of(own, VALUES[self.values](own, value.dtype))
            if integers is not None:
                made = torch.where(integers, own, made.double())
            return laid_out_as(value, float8.like(value, made))
