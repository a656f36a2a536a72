# Finds the numbers in a call's floating-point tensors that the reference converts to integers: the number of the
# image in the first column of RoI boxes, an index, a count. They must stay whole: 1.0 - 2^-22 would be image 0,
# and with other contents there may be no such image. Imported after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import rounding_ties

# Calls that give a number of the tensor to Python, and calls whose results have the same whole numbers.
READS = ("item", "tolist", "__int__", "__index__")
COPIES = ("clone", "contiguous", "float", "double", "half", "bfloat16", "to", "type", "type_as", "reshape", "flatten",
          "round", "floor", "ceil", "trunc", "fix", "abs", "__getitem__", "index_select", "gather", "squeeze",
          "unsqueeze", "repeat", "repeat_interleave", "expand", "select", "narrow", "detach")


class Carried:
    """`masks`: for positions among the call's tensors, which elements the reference converts to integers."""

    def __init__(self) -> None:
        self.masks = {}
        self.watch(())

    def watch(self, tensors: Sequence[torch.Tensor]) -> None:
        """The tensors that the reference gets, in their order. They must live until `stop`."""
        self.tensors, self.masks = tensors, {}
        self.positions = {storage_of(t): i for i, t in enumerate(tensors) if t.is_floating_point() and t.numel()}
        self.copies = {}  # storage of a copy -> (copy, the views of watched tensors that it has)

    def stop(self) -> None:
        self.tensors, self.positions, self.copies = (), {}, {}

    def views_in(self, tensor: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
        """(position, view of the watched tensor) of what the tensor shares or copies."""
        if tensor.numel() == 0:
            return []
        storage = storage_of(tensor)
        if storage in self.positions:
            return [(self.positions[storage], tensor)]
        return self.copies.get(storage, (None, []))[1]

    def note(self, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> None:
        """One call of the reference."""
        first = args[0] if args else None
        if not self.positions or not isinstance(first, torch.Tensor) or not first.is_floating_point():
            return
        name = rounding_ties.name_of(function)
        if name in READS or rounding_ties.is_conversion(function, result):
            for position, view in self.views_in(first):
                self.mark(position, view)
        elif name in COPIES and isinstance(result, torch.Tensor) and result.numel():
            views, storage = self.views_in(first), storage_of(result)
            if views and storage not in self.positions:
                self.copies.setdefault(storage, (result, views))

    def mark(self, position: int, view: torch.Tensor) -> None:
        whole = self.tensors[position]
        mask = self.masks.setdefault(position, torch.zeros_like(whole, dtype=torch.bool))
        offset = view.storage_offset() - whole.storage_offset()
        if mask.stride() == whole.stride() and view.dtype == whole.dtype and 0 not in view.stride():
            mask.as_strided(view.shape, view.stride(), offset).fill_(True)
        else:
            mask.fill_(True)

    def whole_numbers(self, position: int, tensor: torch.Tensor) -> torch.Tensor | None:
        """Which elements of the tensor at a position stay: whole numbers that are converted. None: none."""
        mask = self.masks.get(position)
        if mask is None or mask.shape != tensor.shape:
            return None
        return mask & rounding_ties.is_whole(tensor.detach().double())


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
