# Finds which operations of a reference matter. It replaces every dispatched aten operation, one at a time: by
# its input if the shapes agree, otherwise by zeros or by its own mean. Then it compares the outputs
# with the true ones on several samples. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

import filter_reference
from oracle_types import Json
from tensor_values import leaves

# Operations that compute nothing: they allocate, copy or alias tensors.
PLUMBING = {"aten.clone", "aten.detach", "aten.detach_", "aten.alias", "aten.lift_fresh",
            "aten._to_copy", "aten._unsafe_view", "aten._reshape_alias", "aten.contiguous",
            "aten.empty_like", "aten.zeros_like", "aten.ones_like", "aten.full_like",
            "aten.rand_like", "aten.randn_like", "aten.new_empty", "aten.new_zeros",
            "aten.new_ones", "aten.new_full", "aten.empty_strided", "aten.new_empty_strided",
            "aten.set_", "aten.resize_"}
JOINS = ("aten.cat", "aten.stack")
GRAD = inspect.unwrap(torch.autograd.grad).__code__
MAX_INPUTS = 3  # inputs of an operation that are tried as its result
MAX_NAMED = 200  # operations in a reply


def short_name(func: OpOverload) -> str:
    name = str(func)
    return name[:-len(".default")] if name.endswith(".default") else name


def tensors_of(values: Iterable[Any]) -> list[torch.Tensor]:
    return [v for v in leaves(list(values)) if isinstance(v, torch.Tensor)]


def writes_in_place(func: OpOverload) -> bool:
    """True if the result is an argument that the operation writes to."""
    return any(r.alias_info is not None and r.alias_info.is_write for r in func._schema.returns)


def is_view(func: OpOverload) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write
                                 for r in returns)


class Operation:
    """An aten operation at one place of the task. All calls in a loop count as one operation."""

    def __init__(self, name: str, where: tuple[str, int, str]) -> None:
        self.name, self.calls = name, set()  # indices in the order of dispatch
        self.file, self.line, self.module = where
        self.choices, self.is_float = [], True

    def describe(self, how: str, guards: list[str]) -> Json:
        text = linecache.getline(self.file, self.line).strip() if self.file else ""
        return {"operation": self.name, "file": os.path.basename(self.file), "line": self.line,
                "text": text[:200], "module": self.module, "calls": len(self.calls), "how": how,
                "only_for": guards}


class Tracer(TorchDispatchMode):
    """Records the dispatched operations and their places in the code."""

    def __init__(self, reference: filter_reference.Reference, folder: str, backward: bool) -> None:
        super().__init__()
        self.reference, self.backward = reference, backward
        self.folder = os.path.abspath(folder) + os.sep
        self.names, self.operations = [], {}

    def __torch_dispatch__(self, func: OpOverload, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        index, name = len(self.names), short_name(func)
        self.names.append(name)
        given = tensors_of(list(args) + list(kwargs.values()))
        made = tensors_of([result])
        if not given or not made or name in PLUMBING or is_view(func):
            return result
        if name in JOINS and len(given) == 1:
            return result  # a copy
        if writes_in_place(func) and given[0].data_ptr() in self.reference.state_addresses:
            return result  # a module's own state (running means) is not an output of this call
        key, where, in_gradient = self.place()
        if self.backward and not in_gradient:
            return result  # a kernel must compute only the gradient
        key = (name,) + key
        if key not in self.operations:
            self.operations[key] = Operation(name, where)
            self.operations[key].choices = choices_for(func, given, made)
            self.operations[key].is_float = made[0].is_floating_point()
        self.operations[key].calls.add(index)
        return result

    def place(self) -> tuple[tuple[Any, ...], tuple[str, int, str], bool]:
        """The place of the call: code, position and module of every frame up to the reference's call."""
        key, where, module, in_gradient = [], ("", 0), "", False
        frame, end = sys._getframe(2), filter_reference.Reference.run.__code__
        while frame is not None and frame.f_code is not end:
            code = frame.f_code
            owner = frame.f_locals.get("self") if "self" in code.co_varnames[:1] else None
            if not isinstance(owner, torch.nn.Module):
                owner = None
            key.append((code, frame.f_lasti, id(owner)))
            if code is GRAD:
                in_gradient = True
            if not where[0] and os.path.abspath(code.co_filename).startswith(self.folder):
                where = (os.path.abspath(code.co_filename), frame.f_lineno)
            if owner is not None and not module:
                name = self.reference.modules.get(id(owner), "")
                module = ("%s (%s)" % (name, type(owner).__name__)) if name else ""
            frame = frame.f_back
        return tuple(key), where + (module,), in_gradient


def choices_for(func: OpOverload, given: list[torch.Tensor], made: list[torch.Tensor]) -> list[str]:
    """The possible replacements of an operation's result."""
    if writes_in_place(func):
        return ["input 0"]
    first = made[0]
    alike = [i for i, t in enumerate(given) if t.shape == first.shape and t.dtype == first.dtype]
    if alike:
        return ["input %d" % i for i in alike[:MAX_INPUTS]]
    return ["zeros", "mean"] if first.is_floating_point() and first.numel() > 1 else ["zeros"]


class Ablation(TorchDispatchMode):
    """A run in which the result of one operation is replaced."""

    def __init__(self, names: list[str], operation: Operation, choice: str) -> None:
        super().__init__()
        self.names, self.operation, self.choice = names, operation, choice
        self.index, self.on_track = -1, True

    def __torch_dispatch__(self, func: OpOverload, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        self.index += 1
        name = short_name(func)
        if self.index >= len(self.names) or self.names[self.index] != name:
            self.on_track = False  # the replacement changed the control flow, so the operation matters
        if not self.on_track or self.index not in self.operation.calls:
            return func(*args, **kwargs)
        given = tensors_of(list(args) + list(kwargs.values()))
        if writes_in_place(func):
            return given[0]
        result = func(*args, **kwargs)
        stand_in = given[int(self.choice[6:])] if self.choice.startswith("input ") else None
        return self.replaced(result, stand_in)

    def replaced(self, result: Any, stand_in: torch.Tensor | None) -> Any:
        if isinstance(result, (list, tuple)):
            items = [self.replaced(r, stand_in) for r in result]
            return type(result)(items) if type(result) in (list, tuple) else tuple(items)
        if not isinstance(result, torch.Tensor):
            return result
        if stand_in is not None and (stand_in.shape, stand_in.dtype) == (result.shape, result.dtype):
            return stand_in.clone()
        if self.choice == "mean" and result.is_floating_point():
            return torch.full_like(result, float(result.double().mean()))
        return torch.zeros_like(result)


class Study:
    """The operations of one reference, on samples that are made on demand."""

    def __init__(self, folder: str, backward: bool,
                 samples: list[tuple[str | None, Callable[[], filter_reference.Sample]]]) -> None:
        """`samples`: [(name, make)], functions that make a Sample. The first ones, with name None, are the
        task itself. An operation that matters only in a named sample is a guard."""
        self.makers, self.made = samples, {}
        self.folder, self.backward = folder, backward
        self.traces = {}

    def sample(self, index: int) -> filter_reference.Sample:
        if index not in self.made:
            self.made[index] = self.makers[index][1]()
        return self.made[index]

    def trace(self, index: int) -> tuple[list[str], list[Operation]]:
        if index not in self.traces:
            sample = self.sample(index)
            tracer = Tracer(sample.reference, self.folder, self.backward)
            sample.reference.run(sample.values, tracer)
            self.traces[index] = (tracer.names, list(tracer.operations.values()))
        return self.traces[index]

    def operations(self) -> list[Operation]:
        return self.trace(0)[1]

    def changes_nothing(self, place: int, choice: str, index: int) -> bool | None:
        """True if the replacement changes no output of the sample; None if the sample cannot show it."""
        sample = self.sample(index)
        if not sample.is_usable():
            return None
        names, operations = self.trace(index)
        if place >= len(operations) or operations[place].name != self.operations()[place].name:
            return False  # the control flow differs; assume that the operation matters
        try:
            outputs = sample.reference.run(sample.values, Ablation(names, operations[place], choice))
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            return False
        return sample.same(outputs)

    @staticmethod
    def is_guard(operation: Operation, choice: str, sample: str | None) -> bool:
        """True if the operation may matter only on a scaled sample and still be useful. Any operation can
        protect large inputs from overflow. An epsilon, a clamp or a mask protects small inputs from
        0 / 0. But if the task's own inputs allow zeros as the result, small inputs do not make the
        operation a guard."""
        return sample == "large inputs" or choice.startswith("input") or not operation.is_float

    def examine(self, place: int) -> Json | None:
        """A description if a kernel could leave out the operation, else None."""
        operation = self.operations()[place]
        for choice in operation.choices:
            guards = []
            for index, (name, _) in enumerate(self.makers):
                same = self.changes_nothing(place, choice, index)
                if same is False and name is None:
                    break
                if same is False and self.is_guard(operation, choice, name):
                    guards.append(name)
            else:
                return operation.describe("input" if choice.startswith("input") else choice, guards)
        return None
