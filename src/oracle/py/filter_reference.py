# A task's reference as a plain function of its tensors. Inputs and weights have separate seeds, so that
# the filter can change one thing and keep the rest.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

import float8
from draw_backward import BackwardDraw
from draw_base import Draw
from draw_problem import ProblemDraw
from error_scale import MAX_FACTOR, RMS_FACTOR, least_error, squares
from loaded_task import Task
from oracle_types import Json
from task_code import output_list, seed_everything
from tensor_values import is_float, leaves, tree_map

STEP = 2.0 ** -22  # change of the inputs that shows the effect of their rounding
WEIGHT_SEEDS = 1 << 20  # separate from the inputs' seeds, so that weights do not repeat inputs
GRADIENT_SEEDS = 1 << 21


class SplitTask(Task):
    """An oracle's task with separate seeds for weights and for inputs. Incoming gradients of a backward
    task use the inputs' seed."""

    def __init__(self, request: Json) -> None:
        super().__init__(request)
        self.input_seed = self.weight_seed = 0
        self.given = set()  # addresses of the tensors that the last get_inputs made
        self.get_inputs = self.seeding(self.get_inputs)

    def seeding(self, get_inputs: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the seeds around get_inputs: the oracle calls it first and then makes the model."""
        @functools.wraps(get_inputs)
        def seeded(*args: Any, **kwargs: Any) -> Any:
            seed_everything(self.input_seed)
            values = get_inputs(*args, **kwargs)
            given = values if isinstance(values, (list, tuple)) else [values]
            self.given = {v.data_ptr() for v in leaves(given) if isinstance(v, torch.Tensor)}
            seed_everything(self.weight_seed)
            return values
        return seeded

    def build(self, init: Json, inputs: Json) -> tuple[torch.nn.Module, list[Any]]:
        built = super().build(init, inputs)
        seed_everything(self.input_seed + GRADIENT_SEEDS)  # for the incoming gradients
        return built

    def draw_apart(self, input_seed: int, weight_seed: int, init: Json, inputs: Json) -> Draw:
        self.input_seed, self.weight_seed = input_seed, weight_seed + WEIGHT_SEEDS
        return self.draw(self.weight_seed, init, inputs)


def named_leaves(tree: Any, name: str) -> list[tuple[str, torch.Tensor]]:
    """[(name, tensor)] of the tensors in nested tuples."""
    if isinstance(tree, (list, tuple)):
        return [leaf for i, v in enumerate(tree) for leaf in named_leaves(v, "%s[%d]" % (name, i))]
    return [(name, tree)] if isinstance(tree, torch.Tensor) else []


def refilled(tree: Any, values: Iterator[torch.Tensor]) -> Any:
    """The tree with each tensor replaced by the next of `values`, an iterator."""
    return tree_map(lambda v: next(values) if isinstance(v, torch.Tensor) else v, tree)


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        names = [n for n in inspect.signature(function).parameters if n != "fn"]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else "argument %d" % i for i in range(count)]


class Reference:
    """`names` and `values` of the input tensors. `is_weight` of a tensor is True, False, or None if not
    known. run(values) returns the outputs."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        self.function, self.args = function, args
        found = []
        for name, arg in zip(argument_names(function, len(args)), args):
            found += named_leaves(arg, name)
        self.names, self.values = [n for n, _ in found], [v.detach() for _, v in found]
        self.is_weight: list[bool | None] = [None] * len(found)
        self.is_passed = [True] * len(found)  # whether the function that replaces the reference gets it
        self.modules, self.state_addresses, self.last = {}, set(), []
        self.changed: list[int] = []  # places of the tensors that a call changes: they are results, too

    def call(self, values: list[torch.Tensor], watch: AbstractContextManager) -> Any:
        # In an imported task, the state of a module (counters, averages) is among the arguments.
        self.state_addresses = {v.data_ptr() for v in values}
        args = refilled(self.args, iter(values))
        with torch.no_grad(), watch:
            return self.function(*args)

    def run(self, values: list[torch.Tensor], watch: AbstractContextManager | None = None) -> list[torch.Tensor]:
        """`watch`: a context that sees only the reference's own operations. Afterwards, `last` has the
        tensors as the reference left them."""
        self.last = [v.clone() for v in values]
        result = self.call(self.last, watch or contextlib.nullcontext())
        return [o for o in output_list(result)[0] if o is not None] + [self.last[i] for i in self.changed]


class ProblemReference(Reference):
    """A KernelBench problem: the weights are the module's."""

    def __init__(self, draw: ProblemDraw) -> None:
        super().__init__(draw.model.forward, draw.inputs)
        self.is_weight = [False] * len(self.values)
        self.model = draw.model
        for name, tensor in self.state(draw.model):
            self.names.append(name)
            self.values.append(tensor.detach().clone())
            self.is_weight.append(True)
            self.is_passed.append(True)

    @staticmethod
    def state(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        return list(model.named_parameters()) + list(model.named_buffers())

    def call(self, values: list[torch.Tensor], watch: AbstractContextManager) -> Any:
        model = copy.deepcopy(self.model)  # a module may keep state from earlier calls
        self.modules = {id(m): name for name, m in model.named_modules()}
        state = self.state(model)
        for (_, tensor), value in zip(state, values[len(values) - len(state):]):
            tensor.data = value
        self.state_addresses = {t.data_ptr() for _, t in state}
        args = refilled(self.args, iter(values))
        with torch.no_grad(), watch:
            return model(*args)


class BackwardReference(Reference):
    """The gradients, as a function of the inputs and of the incoming gradients."""

    def __init__(self, draw: BackwardDraw) -> None:
        super().__init__(draw.function, draw.inputs)
        self.draw = draw
        passed = {v.data_ptr() for v in leaves(draw.args) if isinstance(v, torch.Tensor)}
        self.is_passed = [v.data_ptr() in passed for v in self.values]
        for i, grad in enumerate(draw.grads):
            if grad is not None:
                self.names.append("incoming gradient" if not draw.many else
                                  "incoming gradient %d" % i)
                self.values.append(grad)
                self.is_weight.append(False)
                self.is_passed.append(grad.data_ptr() in passed)

    def call(self, values: list[torch.Tensor], watch: AbstractContextManager) -> Any:
        values = iter(values)
        inputs = refilled(self.args, values)
        grads = [g if g is None else next(values) for g in self.draw.grads]
        with watch:
            return self.draw.gradients(inputs, grads)


def reference_of(draw: Draw) -> Reference:
    if isinstance(draw, ProblemDraw):
        return ProblemReference(draw)
    if isinstance(draw, BackwardDraw):
        return BackwardReference(draw)
    reference = Reference(draw.function, draw.args)
    reference.changed = draw.changed
    return reference


# --- comparison of results ------------------------------------------------------------------------


def rms(tensor: torch.Tensor) -> float:
    total, count, _ = squares(tensor)
    return math.sqrt(total / count) if count else 0.0


def moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Moves each element by a relative 2^-22 with a random sign."""
    if not is_float(tensor):
        return tensor
    signs = torch.empty(tensor.shape).random_(0, 2, generator=generator).mul_(2 * STEP)
    values = float8.wide(tensor)
    return float8.like(tensor, values * signs.add_(1 - STEP).to(values.dtype))


class Tolerance:
    """The tolerance of cupel's judge for one output (docs/judging.md). Here, E is the maximum of the
    effect of the inputs' rounding and of 4u of the output's scale (u/2 for 16-bit types; float8 counts as
    float16)."""

    def __init__(self, output: torch.Tensor, perturbed: torch.Tensor) -> None:
        if not output.is_floating_point():
            self.mean = self.largest = 0.0
            return
        least = least_error(output.dtype) * rms(output)
        error = max(least, self.distance(output, perturbed)[0])
        floor = torch.finfo(output.dtype).tiny
        self.mean, self.largest = RMS_FACTOR * error + floor, MAX_FACTOR * error + floor

    @staticmethod
    def distance(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
        """(RMS, largest) difference over finite elements. Infinite if the finite places differ. Neighbours
        in float8 are the same."""
        step = float8.step_between(a, b) if float8.is_float8(a.dtype) else None
        a, b = float8.wide(a.detach()), float8.wide(b.detach())
        finite = torch.isfinite(a)
        if not torch.equal(finite, torch.isfinite(b)):
            return math.inf, math.inf
        if not bool(finite.all()):
            a, b = a[finite], b[finite]
        if a.numel() == 0:
            return 0.0, 0.0
        if step is not None:
            step = step[finite] if not bool(finite.all()) else step
            difference = ((a.double() - b.double()).abs() - step).clamp(min=0)
            return rms(difference), float(difference.max())
        difference = a - b if a.dtype == torch.float32 else a.double() - b.double()
        return rms(difference), float(difference.abs_().max())

    def same(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not a.is_floating_point():
            return bool(torch.equal(a, b))
        mean, largest = self.distance(a, b)
        return mean <= self.mean and largest <= self.largest


def tolerances(reference: Reference, values: list[torch.Tensor], outputs: list[torch.Tensor],
               seed: int) -> list[Tolerance]:
    generator = torch.Generator()
    generator.manual_seed(seed)
    perturbed = reference.run([moved(v, generator) for v in values])
    return [Tolerance(o, s) for o, s in zip(outputs, perturbed)]


class Sample:
    """One set of values for the reference's tensors, and the outputs for them."""

    def __init__(self, reference: Reference, values: Iterable[torch.Tensor], seed: int) -> None:
        self.reference, self.values = reference, list(values)
        self.outputs = reference.run(self.values)
        self.tolerances = tolerances(reference, self.values, self.outputs, seed)

    def is_usable(self) -> bool:
        """False if an output has no finite element, since then no change is visible."""
        return all(not o.is_floating_point() or bool(torch.isfinite(float8.wide(o)).any())
                   for o in self.outputs)

    def same(self, outputs: list[torch.Tensor]) -> bool:
        return len(outputs) == len(self.outputs) and all(
            t.same(a, b) for t, a, b in zip(self.tolerances, self.outputs, outputs))

    def is_unchanged_by(self, replaced: dict[int, torch.Tensor]) -> bool:
        """True if the values in `replaced`, {place: tensor}, do not change the outputs. A failure counts
        as a change."""
        values = [replaced.get(i, v) for i, v in enumerate(self.values)]
        try:
            return self.same(self.reference.run(values))
        except (RuntimeError, IndexError, ValueError):
            return False
