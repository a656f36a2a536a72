# Finds whether a draw of another distribution (distributions.py) can judge kernels: not if a correct
# kernel could give another result, or if the draw has nothing to replace.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import torch

import float8
import float64_place
import steady_draws
from distributions import PLANTED, TINY, Spread
from draw_base import Draw
from error_scale import squares
from steady_draws import depends_on_rounding
from tensor_values import Outputs, random_bits

# The distance by which inputs are moved to find ties and kinks. Sums of zeros are exact, so zeros are
# moved by very little: an epsilon of 1e-8 makes a norm steep, not ambiguous.
MOVE, MOVE_ZEROS, MOVE_DENORMALS = 2.0 ** -20, 2.0 ** -40, 2.0 ** -146
EXACT_BOUND = 2.0 ** 22  # limit of every partial sum, in any order
EXACT_STEP = 2.0 ** -12  # results are multiples of this


class Inapplicable(Exception):
    """The distribution does not apply to the setting or to this draw. str() says why."""


class Jitter:
    """Moves every element of a tensor by the same amount with a random sign, away from ties and kinks.
    Tensors of small numbers are moved by less."""

    def __init__(self, seed: int, move: float = MOVE) -> None:
        self.move = move
        self.generator = torch.Generator()
        self.generator.manual_seed(seed)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        signs = random_bits(tensor, self.generator).mul_(2).sub_(1)
        return tensor + signs.mul_(self.move * self.scale_of(tensor))

    def scale_of(self, tensor: torch.Tensor) -> float:
        if self.move != MOVE:
            return 1.0  # other values of `move` already suit their kind of inputs
        total, count, _ = squares(tensor)
        return min(1.0, math.sqrt(total / count)) or 1.0 if count else 1.0


def largest_of(outputs: Outputs) -> float:
    """The largest magnitude among finite elements."""
    largest = 0.0
    for t in outputs:
        if t is not None and t.numel():
            with float64_place.place_of(t).work():
                t = t.to(torch.float64).abs()
                largest = max(largest, float(t.masked_fill_(~torch.isfinite(t), 0).max()))
    return largest


def jumps(truth: Outputs, moved: Outputs, largest: float) -> bool:
    """True if a result depends on how a tie is broken, or on the inputs' side of a kink. Elements that
    are not finite must be the same in both."""
    return any(t is not None and t.numel() and jumps_to(m, t, largest)
               for t, m in zip(truth, moved))


def jumps_to(moved: torch.Tensor, truth: torch.Tensor, largest: float) -> bool:
    with float64_place.place_of(truth).work():
        if not truth.is_floating_point():
            return not torch.equal(truth, moved)
        finite = torch.isfinite(truth)
        if not same_where_not_finite(truth, moved, finite):
            return True
        change = (truth - moved).abs_().masked_fill_(~finite, 0)
        return not float(change.max()) <= 2.0 ** -10 * (1 + largest)


def same_where_not_finite(a: torch.Tensor, b: torch.Tensor, finite: torch.Tensor) -> bool:
    if not torch.equal(finite, torch.isfinite(b)):
        return False
    if bool(finite.all()):
        return True
    a, b = a[~finite].double(), b[~finite].double()
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(0), b.nan_to_num(0))


def is_multiple(reference: torch.Tensor, truth: torch.Tensor) -> bool:
    """True if both are equal (without NaN) and multiples of EXACT_STEP."""
    with float64_place.place_of(truth).work():
        if not torch.equal(float64_place.to_place_of(reference, truth).to(truth.dtype), truth):
            return False
        return not reference.is_floating_point() or torch.equal(
            (truth / EXACT_STEP).round() * EXACT_STEP, truth)


def is_finite(tensor: torch.Tensor) -> bool:
    with float64_place.place_of(tensor).work():
        return bool(torch.isfinite(tensor).all())


def is_exact(draw: Draw, reference: Outputs, truth: Outputs, seed: int) -> bool:
    """True if any correct arithmetic gives these results exactly: float32 and float64 agree, no partial
    sum overflows the significand, and no result depends on how a tie is broken."""
    if not all(r is None or is_multiple(r, t) for r, t in zip(reference, truth)):
        return False
    bounds = [m for m in draw.truth(torch.abs) if m is not None and m.numel()]
    if not all(is_finite(m) for m in bounds):
        return False
    largest = largest_of(bounds)
    if not largest < EXACT_BOUND:
        return False
    return not any(jumps(truth, draw.truth(Jitter(seed + i)), largest) for i in range(2))


def check_finite(kind: str, reference: torch.Tensor, truth: torch.Tensor) -> None:
    rounded, reference = truth.to(reference.dtype).to(truth.dtype), float8.wide(reference)
    finite = torch.isfinite(rounded)
    if kind not in PLANTED and not bool(finite.all()):
        raise Inapplicable("the correct result is not finite")
    if not same_where_not_finite(rounded, reference, finite):
        raise Inapplicable("only one of PyTorch's own result and the correct result is not finite")


def check_applicable(kind: str, spread: Spread, draw: Draw, reference: Outputs, truth: Outputs, seed: int) -> None:
    """Raises Inapplicable if a correct kernel could differ, or if no tensor was replaced."""
    if not spread.replaced:
        raise Inapplicable("the call has no tensor to replace")
    if kind == "integers":
        if not is_exact(draw, reference, truth, seed & 0xFFFFFFFF):
            raise Inapplicable("the task is not exact on small integers")
        return
    for r, t in zip(reference, truth):
        if t is not None and t.is_floating_point():
            with float64_place.place_of(t).work():
                check_finite(kind, float64_place.to_place_of(r, t), t)
    if kind == "tiny":  # judged by the shadow values first, which detect other ties
        # Products are smaller by TINY than a bias that is added, and lose that many digits.
        moves = (steady_draws.MOVE, steady_draws.MOVE / TINY)
        if any(depends_on_rounding(draw, truth, seed, move) for move in moves):
            raise Inapplicable("a gradient depends on the sign of a number that is zero except for rounding")
        return
    move = {"zeros": MOVE_ZEROS, "denormals": MOVE_DENORMALS}.get(kind, MOVE)
    if jumps(truth, draw.truth(Jitter(seed & 0xFFFFFFFF, move)), largest_of(truth)):
        raise Inapplicable("the result jumps if the inputs change by 2^%d" % math.log2(move))
