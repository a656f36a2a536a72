# Which indices are right where a reference names the largest or the smallest of several elements that are equal, or
# that differ by less than rounding: PyTorch on a GPU may name any of them. How much rounding makes of them follows
# from PyTorch's own error in these elements; if they are exact, only equal ones count.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import float64_place
import rounding_ties

MOST = 16  # equal elements of a row that can be listed
OF_ALL = ("argmax", "argmin")  # without a dimension, they choose among all elements
OF_ROWS = ("max", "min")  # only with a dimension do they give indices


class Choice:
    """A call that names elements, in PyTorch's own run. `dim`: None: among all elements."""
    __slots__ = ("dim", "is_least", "operand")

    def __init__(self, operand: torch.Tensor, dim: int | None, is_least: bool) -> None:
        self.operand, self.dim, self.is_least = operand.detach().clone(), dim, is_least

    def right(self, exact: torch.Tensor) -> torch.Tensor | None:
        """Which elements of each row of the operand `exact` of a float64 run are right, rows in the last
        dimension. None if that is not known."""
        if exact.shape != self.operand.shape:
            return None
        own = float64_place.to_place_of(self.operand, exact).to(torch.float64)
        exact = exact.detach().to(torch.float64)
        if bool(torch.isnan(exact).any()):
            return None
        margin = rounding_ties.margin_of(own, exact, self.operand.dtype)
        rows = self.rows(-exact if self.is_least else exact)
        best = rows.max(-1, keepdim=True).values
        return (rows == best) | (rows >= best - self.rows(margin))

    def rows(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.reshape(-1) if self.dim is None else tensor.movedim(self.dim, -1)

    def pick(self, exact: torch.Tensor, number: int) -> tuple[torch.Tensor, int] | None:
        """(the index of right element `number` of each row, or of its last; how many right ones a row has at
        most)."""
        right = self.right(exact)
        if right is None:
            return None
        counts = right.sum(-1, keepdim=True)
        wanted = right & (right.cumsum(-1) - 1 == counts.clamp(max=number + 1) - 1)
        return wanted.to(torch.uint8).argmax(-1), int(counts.max())

    def chosen(self, exact: torch.Tensor, result: Any, number: int) -> tuple[Any, int] | None:
        """(the call's result if it had named these elements, as pick())."""
        picked = self.pick(exact, number)
        if picked is None:
            return None
        indices, most = picked
        if isinstance(result, torch.Tensor):
            return indices.reshape(result.shape).to(result.dtype), most
        values = self.rows(exact).gather(-1, indices.unsqueeze(-1)).squeeze(-1)
        parts = (values.reshape(result[0].shape).to(result[0].dtype), indices.reshape(result[1].shape))
        return type(result)(parts), most


def before_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice | None:
    """The choice that the call makes, if it names elements of a tensor."""
    name = rounding_ties.name_of(function)
    operand = args[0] if args else kwargs.get("input")
    if name not in OF_ALL + OF_ROWS or not isinstance(operand, torch.Tensor) or "out" in kwargs:
        return None
    if not 0 < operand.numel() <= rounding_ties.LARGEST or operand.is_complex():
        return None
    dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if dim is None and name in OF_ALL:
        return Choice(operand, None, name == "argmin")
    if not isinstance(dim, int) or isinstance(dim, bool):
        return None
    return Choice(operand, dim, name in ("argmin", "min"))
