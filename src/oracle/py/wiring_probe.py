# Looks at the calls of a task's functions: describes their arguments, and finds where the arguments of
# backward_fn come from. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import torch

import cuda_on_cpu
import task_error
from case_file import dtype_name
from draw_backward import BackwardDraw, Context
from draw_base import Captured
from loaded_task import Task
from oracle_types import Json
from task_code import output_list, seed_everything
from task_error import TaskError
from tensor_values import leaves, tree_map, unchanged

Path = tuple[int, ...]  # a place in nested tuples


def describe(value: Any) -> Json:
    """The description of one argument that an operator's schema needs."""
    if value is None:
        return {"kind": "none"}
    for kind, type_ in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(value, type_):
            return {"kind": kind}
    if isinstance(value, (list, tuple)):
        return {"kind": "tuple", "items": [describe(v) for v in value]}
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "dtype": dtype_name(value.dtype),
                "dense": value.is_contiguous()}
    raise TaskError("an argument has the unsupported type %s" % type(value).__name__)


class MarkedInt(int):
    """An int that is distinguishable from an equal one by identity, as floats are."""


class MarkedStr(str):
    """A str that is distinguishable from an equal one by identity."""


def marked(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(marked(v) for v in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return MarkedInt(value)
    return MarkedStr(value) if isinstance(value, str) else value


def paths(values: Sequence[Any], prefix: Path = ()) -> Iterator[tuple[Path, Any]]:
    for i, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            yield from paths(value, prefix + (i,))
        yield prefix + (i,), value


def same_tensor(a: Any, b: Any) -> bool:
    return (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.numel() > 0
            and a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
            and a.dtype == b.dtype)


def is_distinct(value: Any) -> bool:
    """True if its identity shows its origin. None, True and small plain integers are shared objects."""
    return isinstance(value, (float, MarkedInt, MarkedStr))


class MarkedDraw(BackwardDraw):
    """A backward draw of marked inputs that keeps the outputs of the forward pass."""

    def capture_forward(self, *args: Any) -> Any:
        return marked(super().capture_forward(*args))

    def run_forward(self, autograd: type[torch.autograd.Function], context: Context, args: Sequence[Any]) -> Any:
        output = super().run_forward(autograd, context, args)
        self.forward_outputs = output_list(output)[0]
        return output


class Probe:
    """Finds the origins of the arguments of one call of backward_fn."""

    def __init__(self, task: Task, setting: Json) -> None:
        seed_everything(1)
        task.spread = unchanged
        self.draw = MarkedDraw(task, setting["init"], setting["inputs"])

    def source(self, value: Any, path: Path) -> list[Any] | None:
        """The origin of one argument of backward_fn, or None for a tensor of unknown origin."""
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor)
                                                    for v in leaves(value)):
            items = [self.source(v, path + (i,)) for i, v in enumerate(value)]
            return None if None in items else ["tuple", items]
        for i, grad in enumerate(self.draw.grads):
            if same_tensor(grad, value):
                return ["grad", i]
        for place, given in paths(self.draw.inputs):
            if same_tensor(given, value) or (given is value and is_distinct(value)):
                return ["input", list(place)]
        for i, output in enumerate(self.draw.forward_outputs):
            if same_tensor(output, value):
                return ["output", [i]]
        return None if isinstance(value, torch.Tensor) else ["derived", list(path)]

    def given(self, init: Json) -> int:
        """The number of the function's inputs, without those that the model computes from the others."""
        inputs, own = self.draw.inputs, self.draw.model_inputs
        same = len(own) < len(inputs) and all(map(same_tensor, inputs, own))
        has_state = any(True for part in (self.draw.model.parameters(), self.draw.model.buffers()) for _ in part)
        if not same or has_state or init or any(i is not None and i >= len(own) for i in self.draw.wanted):
            return len(inputs)
        return len(own)

    def sources(self) -> list[list[Any] | None]:
        return [self.source(v, (i,)) for i, v in enumerate(self.draw.args)]


def derives_from_shapes(task: Task, probe: Probe, sources: list[Any], support: ModuleType) -> bool:
    """True if the task's autograd function gives the same numbers on tensors without data."""
    wiring = support.Wiring(None, sources, [], len(probe.draw.inputs), task.autograd)
    wanted = list(wiring.wanted(sources, "derived"))
    if not wanted:
        return True
    try:
        found = wiring.derived(probe.draw.inputs)
        for path in wanted:
            got, want = support.at(found, path), support.at(probe.draw.args, path)
            if isinstance(got, torch.Tensor) or tree_map(lambda v: v, got) != want:
                return False
    except Exception:  # PyTorch cannot infer shapes for an operation, or the code reads data
        return False
    return True


def look_backward(task: Task, settings: list[Json], support: ModuleType) -> Json:
    reply = {"settings": [], "recompute": False, "sources": None}
    for setting in settings:
        probe = Probe(task, setting)
        draw, sources = probe.draw, probe.sources()
        if None in sources or not derives_from_shapes(task, probe, sources, support):
            reply["recompute"] = True
        if reply["sources"] not in (None, sources):
            reply["recompute"] = True
        reply["sources"] = sources
        given = probe.given(setting["init"])
        if given < len(draw.inputs):
            reply["recompute"] = True
        gradients = [{"input": i, "dtype": None if i is None else
                      dtype_name(draw.inputs[i].dtype)} for i in draw.wanted]
        reply["settings"].append({
            "id": setting["id"], "args": [describe(v) for v in draw.args],
            "inputs": [describe(v) for v in draw.inputs], "given": given, "gradients": gradients})
    return reply


def look_forward(task: Task, settings: list[Json]) -> Json:
    reply = {"settings": []}
    for setting in settings:
        draw = task.draw(1, setting["init"], setting["inputs"])
        reply["settings"].append({
            "id": setting["id"], "args": [describe(v) for v in draw.args],
            "is_tuple": draw.is_tuple, "outputs": [o is not None for o in draw.reference()]})
    return reply


def look(request: Json, support: ModuleType) -> Json:
    """The reply about one direction. `support`: the module that every exported package contains."""
    path = request["path"]
    try:
        with cuda_on_cpu.OnCpu():
            if request["direction"] == "backward":
                return look_backward(Task(request), request["settings"], support)
            return look_forward(Task(request), request["settings"])
    except Exception as error:
        return {"failure": task_error.describe(error, path)}
    except (SystemExit, Captured) as error:
        return {"failure": task_error.describe(error, path)}
