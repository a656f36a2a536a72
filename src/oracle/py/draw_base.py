# One call of a task's function: the parts that all kinds of tasks share.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

import dtype_trace
import float64_place
from float64_place import Cpu
from oracle_types import Json
from tensor_values import Change, Noise, Outputs, leaves, to_double, tree_map


class Captured(BaseException):
    """Ends Model.forward once its call of fn is known."""


class FolderTask(Protocol):
    """The parts of a task that draws of a folder's functions use."""
    function: Callable[..., Any]
    spread: Callable[[Any], Any]  # replaces tensors of a draw

    def build(self, init: Json, inputs: Json) -> tuple[torch.nn.Module, Sequence[Any]]:
        """(module, arguments of its forward)."""


class Draw:
    """One call of the function: its arguments (`args`), and both results. Without `answer`, it may have
    only the inputs, which are the same."""
    args: tuple[Any, ...] = ()  # the candidate's arguments
    names: Sequence[str] = ()  # of the outputs
    outputs: Outputs = ()  # if they are already known after the draw
    is_tuple = False

    def __init__(self) -> None:
        self.copies = {}  # of the call's tensors where the truth is computed, by id()
        self.trace = dtype_trace.Trace()  # of the reference

    def reference(self) -> Outputs:
        """List of tensors or None: PyTorch's own results."""
        raise NotImplementedError

    def truth(self, noise: Noise | Change | None = None) -> Outputs:
        """The results in float64, optionally of perturbed inputs."""
        self.reference()  # makes the trace
        tensors = [v for v in leaves((self.args, self.outputs)) if isinstance(v, torch.Tensor)]
        place = float64_place.place_for(sum(t.numel() for t in tensors))
        with place.work():
            return self.truth_at(place, noise)

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        raise NotImplementedError

    def doubles(self, values: Any, noise: Noise | Change | None, place: Cpu) -> Any:
        """Float64 copies of the values. Copies on a GPU are kept for the next truth, because the transfer
        takes longer than most computations."""
        def double(value: Any) -> Any:
            if place is float64_place.CPU or not isinstance(value, torch.Tensor):
                return to_double(value, noise)
            if id(value) not in self.copies:
                self.copies[id(value)] = place.put(value.detach())
            return to_double(self.copies[id(value)], noise, place)
        return tree_map(double, values)
