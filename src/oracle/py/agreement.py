# Compares the outputs of calls that baseline.py times with eager PyTorch's, to detect a wrong
# compilation. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from draw_base import Draw
from oracle_types import Json
from task_error import TaskError
from tensor_values import Outputs, is_float

COMPARED = 1 << 24  # elements at a time, to limit memory


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def difference(mine: torch.Tensor, theirs: torch.Tensor) -> tuple[float, float, float]:
    """(largest difference, largest element, RMS of the difference over RMS of `theirs`). The differences are NaN if
    only one of two elements is NaN."""
    worst, size, squares, own = 0.0, 0.0, 0.0, 0.0
    mine, theirs = mine.detach().reshape(-1), theirs.reshape(-1)
    for start in range(0, mine.numel(), COMPARED):
        a = mine[start:start + COMPARED].to(torch.float64)
        b = theirs[start:start + COMPARED].to(torch.float64)
        same = (a == b) | (a.isnan() & b.isnan())  # equal infinities have no difference
        apart = torch.where(same, torch.zeros_like(a), (a - b).abs())
        part = float(apart.max())
        worst = worst if part <= worst else part  # a NaN stays
        if math.isnan(worst):
            return math.nan, size, math.nan
        magnitudes = torch.where(torch.isfinite(b), b.abs(), torch.zeros_like(b))
        size = max(size, float(magnitudes.max()))
        squares, own = squares + float(apart.square().sum()), own + float(magnitudes.square().sum())
    return worst, size, math.sqrt(squares / own) if own > 0 else math.inf if squares > 0 else 0.0


def differing_share(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """Of integers: choices among equals may differ, so their values say little."""
    return float((mine != theirs).sum()) / max(1, mine.numel())


def compared(names: Sequence[str], mine: Outputs, theirs: Outputs) -> list[Json]:
    """The part of the reply about each output."""
    if len(mine) != len(theirs):
        raise TaskError("it returns or changes %d tensors, but eager %d" % (len(mine), len(theirs)))
    listed = []
    for name, a, b in zip(names, mine, theirs):
        if a is None and b is None:
            listed.append({"name": name, "none": True})
            continue
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            raise TaskError("the shape or type of its %s differs from eager's" % name)
        worst, size, share = difference(a, b)
        listed.append({"name": name, "none": False, "difference": finite(worst), "largest": finite(size),
                       "rms_share": finite(share), "differing": None if is_float(a) else differing_share(a, b)})
    return listed


def names_of(draw: Draw, outputs: Outputs, changed: Sequence[str]) -> Sequence[str]:
    """Names of the outputs, of which the last ones, `changed`, are what a call leaves in tensors."""
    if len(draw.names) == len(outputs):
        return draw.names
    returned = len(outputs) - len(changed)
    return [*(["output"] if returned == 1 else ["output %d" % i for i in range(returned)]), *changed]
