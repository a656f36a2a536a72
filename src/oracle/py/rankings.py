# Which indices are right where a reference sorts or ranks elements: PyTorch may put equal elements in any order, and
# so may a kernel those that differ by less than rounding. Each element gets a label, which is equal for elements that
# are equal in this sense. An index is right if its element has the label of the one that the reference names.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import float64_place
import rounding_ties

# By name: where the dimension is among the arguments.
DIMENSION = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1}


class Ranking:
    """A call that gives indices of ranked elements, in PyTorch's own run."""
    __slots__ = ("dim", "exact", "named", "operand")

    def __init__(self, operand: torch.Tensor, dim: int) -> None:
        self.operand, self.dim = operand.detach().clone(), dim % operand.dim()
        self.exact: torch.Tensor | None = None  # the operand of a float64 run
        self.named: torch.Tensor | None = None  # the indices of that run

    def observe(self, exact: torch.Tensor, result: Any) -> None:
        self.exact = exact.detach().clone()
        self.named = (result if isinstance(result, torch.Tensor) else result[1]).detach().clone()

    def gives(self, output: torch.Tensor | None) -> bool:
        """True if these indices are a result of the task."""
        if output is None or self.named is None or output.is_floating_point():
            return False
        return output.shape == self.named.shape and torch.equal(output.to(torch.int64), self.named)

    def labels(self) -> torch.Tensor | None:
        """Of the operand's elements; equal ones may be in any order. None if that is not known."""
        own = float64_place.to_place_of(self.operand, self.exact).to(torch.float64)
        exact = self.exact.to(torch.float64)
        if exact.shape != own.shape or bool(torch.isnan(exact).any()):
            return None
        margin = rounding_ties.margin_of(own, exact, self.operand.dtype)
        values, order = exact.sort(self.dim)
        margin = margin.gather(self.dim, order)
        steps = (values.diff(dim=self.dim) > margin.narrow(self.dim, 1, margin.shape[self.dim] - 1)).to(torch.int32)
        first = torch.zeros_like(values.narrow(self.dim, 0, 1), dtype=torch.int32)
        groups = torch.cat([first, steps.cumsum(self.dim, dtype=torch.int32)], self.dim)
        return torch.zeros_like(groups).scatter(self.dim, order, groups).cpu()


def before_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ranking | None:
    """The ranking that the call makes, if it gives indices."""
    position = DIMENSION.get(rounding_ties.name_of(function))
    operand = args[0] if args else kwargs.get("input")
    if position is None or not isinstance(operand, torch.Tensor) or "out" in kwargs or kwargs.get("stable"):
        return None
    if not 0 < operand.numel() <= rounding_ties.LARGEST or operand.is_complex() or operand.dim() == 0:
        return None
    of_all = None if "median" in rounding_ties.name_of(function) else -1  # a median of all elements has no index
    dim = kwargs.get("dim", args[position] if len(args) > position else of_all)
    if not isinstance(dim, int) or isinstance(dim, bool):
        return None
    return Ranking(operand, dim)
