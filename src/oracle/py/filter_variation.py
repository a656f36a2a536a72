# Measures how a task's outputs vary: over seeds, along axes, with only the weights and with only the
# inputs. filter_checks.cc judges the numbers. To save memory, it keeps a mean and a sum of squares of
# each output, not the draws. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import torch

from error_scale import squares
from oracle_types import Json

SURELY_VARIES = 0.1  # of the output's scale: an axis that varies by more is not measured again
PUBLISHED = 0.01


def finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Moments:
    """Elementwise standard deviation over draws, with Welford's algorithm."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, None, None

    def add(self, value: torch.Tensor) -> None:
        self.count += 1
        if self.count == 1:
            self.mean, self.squares = value.clone(), torch.zeros_like(value)
            return
        if value.shape != self.mean.shape:
            raise ValueError("the shape of an output varies between draws: %s, %s" %
                             (list(self.mean.shape), list(value.shape)))
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def largest(self) -> float | None:
        """The largest standard deviation of an element, or None before the second draw."""
        if self.count < 2 or self.squares.numel() == 0:
            return None
        return math.sqrt(max(0.0, float(self.squares.max())) / (self.count - 1))


class OutputVariation:
    """The variation of one output over the draws passed to add()."""

    def __init__(self, name: str) -> None:
        self.name, self.dtype, self.shape = name, "", []
        self.elements = self.finite = 0
        self.lowest, self.highest, self.square_sum = math.inf, -math.inf, 0.0
        self.seeds, self.inputs, self.weights = Moments(), Moments(), Moments()
        self.axes = {}
        self.constant, self.equals = True, None

    @staticmethod
    def plain(output: torch.Tensor) -> tuple[torch.Tensor, int]:
        """(float32 as in the published filter, with 0 for non-finite elements; number of finite ones)."""
        value = output.detach().to(torch.float32)
        finite = torch.isfinite(value)
        if bool(finite.all()):
            return value, value.numel()
        return torch.where(finite, value, torch.zeros(())), int(finite.sum())

    def add(self, output: torch.Tensor) -> None:
        """Adds a draw with new inputs and new weights."""
        value, finite = self.plain(output)
        self.dtype, self.shape = str(output.dtype).replace("torch.", ""), list(output.shape)
        self.elements += value.numel()
        self.finite += finite
        if value.numel():
            self.lowest = min(self.lowest, float(value.min()))
            self.highest = max(self.highest, float(value.max()))
            self.square_sum += squares(value)[0]
        self.seeds.add(value)
        self.look_along_axes(value)

    def scale(self) -> float:
        return math.sqrt(self.square_sum / self.finite) if self.finite else 0.0

    def look_along_axes(self, value: torch.Tensor) -> None:
        for axis, size in enumerate(value.shape):
            if size < 2 or value.numel() == 0:
                continue
            known = self.axes.get(axis, 0.0)
            if known >= PUBLISHED and known > SURELY_VARIES * self.scale():
                continue
            self.axes[axis] = max(known, float(torch.std(value, dim=axis).max()))

    def describe(self) -> Json:
        some = self.elements > 0
        return {"name": self.name, "dtype": self.dtype, "shape": self.shape,
                "finite": self.finite / self.elements if some else 1.0,
                "lowest": self.lowest if some else 0.0, "highest": self.highest if some else 0.0,
                "scale": finite_or_none(self.scale()), "seeds_std": self.seeds.largest(),
                "inputs_std": self.inputs.largest(), "weights_std": self.weights.largest(),
                "axes": [{"axis": a, "size": self.shape[a], "std": s}
                         for a, s in sorted(self.axes.items())],
                "constant": self.constant, "equals": self.equals}
