# One call of a task's function: the parts that all kinds of tasks share.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

import dtype_trace
import equal_choices
import float64_place
import memory_limit
import rankings
import rounding_ties
from float64_place import Cpu
from oracle_types import Json
from tensor_values import Change, Noise, Outputs, is_float, leaves, rounded, to_double, tree_map


class Captured(BaseException):
    """Ends Model.forward once its call of fn is known."""


class FolderTask(Protocol):
    """The parts of a task that draws of a folder's functions use."""
    function: Callable[..., Any]
    spread: Callable[[Any], Any]  # replaces tensors of a draw

    def changed_by(self, init: Json, inputs: Json, found: set[int]) -> list[int]:
        """The positions of arguments' tensors that the function changes at this setting, if one call changed
        those in `found`."""

    def build(self, init: Json, inputs: Json) -> tuple[torch.nn.Module, Sequence[Any]]:
        """(module, arguments of its forward)."""


class Draw:
    """One call of the function: its arguments (`args`), and both results. Without `answer`, it may have
    only the inputs, which are the same."""
    args: tuple[Any, ...] = ()  # the candidate's arguments
    names: Sequence[str] = ()  # of the outputs
    outputs: Outputs = ()  # if they are already known after the draw
    changed: Sequence[int] = ()  # the last outputs: positions of arguments' tensors that the function changes
    is_tuple = False
    keeps_whole_numbers = False  # whether changes of the inputs leave out all whole numbers
    rounds_numbers = False  # whether the call's own numbers are rounded to float32

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

    def truth_of_rounded_numbers(self) -> Outputs:
        """The truth if the numbers of the call, beside its tensors, are rounded to float32."""
        self.rounds_numbers = True
        try:
            return self.truth()
        finally:
            self.rounds_numbers = False

    def neighbours(self) -> list[Outputs]:
        """The truth if all numbers that the reference rounds to integers, and that lie within rounding of a
        tie, were below it, and if all were above it. And the truth if it named others of equal elements
        (equal_choices.py), at most MOST of them."""
        calls, found = self.trace.calls, []
        for applies, make in ((any(call.rounding is not None for call in calls), self.around_ties),
                              (any(call.choice is not None for call in calls), self.other_choices)):
            try:
                found += make() if applies else []
            except Exception as error:  # the reference does not work with such numbers, as if they were indices
                if memory_limit.is_exceeded(error):
                    raise
            finally:
                self.trace.observes, self.trace.direction, self.trace.named = False, 0, None
        return found

    def around_ties(self) -> list[Outputs]:
        self.trace.observes = True
        self.truth(rounding_ties.Scatter())
        self.trace.observes, self.trace.near_ties, self.trace.direction = False, False, -1
        below = self.truth()
        if not self.trace.near_ties:
            return []
        self.trace.direction = 1
        above = self.truth()
        self.trace.direction = 0
        return [below, above]

    def other_choices(self) -> list[Outputs]:
        found = []
        while len(found) < equal_choices.MOST:
            self.trace.named, self.trace.equals = len(found), 0
            found.append([None if o is None or o.is_floating_point() else o for o in self.truth()])
            if self.trace.equals <= len(found):
                break
        return found

    def rankings(self) -> list[rankings.Ranking | None]:
        """For each output, the ranking that gives its indices. Empty if the reference ranks nothing."""
        known = [call.ranking for call in self.trace.calls if call.ranking is not None]
        if not known:
            return []
        self.trace.watches_ranks = True
        try:
            outputs = self.truth()
        finally:
            self.trace.watches_ranks = False
        return [next((ranking for ranking in known if ranking.gives(output)), None) for output in outputs]

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        raise NotImplementedError

    def doubles(self, values: Any, noise: Noise | Change | None, place: Cpu, are_given: bool = True) -> Any:
        """Float64 copies of the values, changed by `noise`. If the reference gets these values (`are_given`),
        numbers that must stay whole are not changed. Copies on a GPU are kept for the next truth, because the
        transfer takes longer than most computations."""
        positions = itertools.count()

        def double(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return rounded(value) if self.rounds_numbers else value
            position, source = next(positions), value
            if place is not float64_place.CPU:
                if id(value) not in self.copies:
                    self.copies[id(value)] = place.put(value.detach())
                source = self.copies[id(value)]
            result = to_double(source, noise, place)
            kept = self.kept_numbers(position, value) if are_given and noise is not None else None
            if kept is None:
                return result
            return torch.where(place.put(kept), to_double(source, None, place), result)
        return tree_map(double, values)

    def kept_numbers(self, position: int, tensor: torch.Tensor) -> torch.Tensor | None:
        """Which elements of the tensor at a position among those that the reference gets must stay whole
        numbers. None: none."""
        if not is_float(tensor):
            return None
        if not self.keeps_whole_numbers:
            return self.trace.carried.whole_numbers(position, tensor)
        return rounding_ties.is_whole(tensor.detach().double())
