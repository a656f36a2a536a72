# The arguments of calls without their data: shapes, strides and numbers at many sizes, also at sizes whose
# data would not fit into memory. The task's code runs on fake tensors.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

import cuda_on_cpu
import task_code
import time_limit
from case_file import CaseFile, dtype_name
from draw_base import Captured, Draw
from loaded_task import Task
from oracle_types import Json
from task_error import TaskError, describe
from tensor_values import leaves

SEED = 1  # has no effect: fake tensors have no values
SECONDS, ALL_SECONDS = 1, 8  # for one setting, and for all of a request: a reference may loop over a size


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Tensors that are made here have no data. Random numbers cannot be counted, since none are drawn."""
    counted = task_code.randomness
    task_code.randomness = list
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        task_code.randomness = counted


def has_elements(tensors: Iterable[Any]) -> bool:
    return all(t.numel() > 0 for t in tensors if isinstance(t, torch.Tensor))


def draw_at(task: Task, init: Json, inputs: Json) -> Draw:
    """A call at these sizes. Fails if the task's own reference does, or if its result is empty and its inputs
    are not: then the sizes do not fit together."""
    draw = task.draw(SEED, init, inputs, answer=False)
    if task.direction == "backward":  # the draw has run the forward function
        results = draw.grads
    else:
        try:
            with torch.no_grad(), cuda_on_cpu.OnCpu():
                results, _ = task_code.output_list(task.function(*draw.args))
        except (DataDependentOutputException, DynamicOutputShapeException):
            return draw  # the reference reads values: whether it accepts this size is seen when it is judged
    if has_elements(leaves(draw.args)) and not has_elements(results):
        raise TaskError("the result has no elements")
    return draw


def defaults_of(task: Task, init: Json, inputs: Json) -> Json:
    """The whole numbers that the task's signatures give to keywords that a setting leaves out."""
    def left_out(function: Callable[..., Any], given: Json) -> Json:
        defaults = {p.name: p.default for p in inspect.signature(function).parameters.values()}
        return {k: v for k, v in defaults.items() if type(v) is int and k not in given}
    return {"init": left_out(task.model_class.__init__, init),
            "inputs": left_out(task.get_inputs, inputs)}


def describe_call(task: Task, init: Json, inputs: Json) -> Json:
    draw = draw_at(task, init, inputs)
    case = CaseFile()
    args = [case.value(a) for a in draw.args]
    storages = [{"name": name, "dtype": dtype_name(flat.dtype), "elements": flat.numel()}
                for name, flat, _ in case.tensors]
    return {"args": args, "storages": storages, "defaults": defaults_of(task, init, inputs)}


def describe_calls(task: Task, settings: list[Json]) -> list[Json]:
    """For each setting, what its call gets, or {"failure": why}. {"failure": why, "untried": true}, if there was no
    time left."""
    if task.is_problem:
        raise TaskError("a problem file has no sizes to vary; cupel task import makes a task that has some")
    calls, end = [], time.monotonic() + ALL_SECONDS
    with without_values():
        for setting in settings:
            if time.monotonic() > end:
                calls.append({"failure": "calls without data take too long", "untried": True})
                continue
            try:
                with time_limit.limit_time(SECONDS, "a call without data"):
                    calls.append(describe_call(task, setting["init"], setting["inputs"]))
            except (Exception, SystemExit, Captured, time_limit.TooSlow) as error:
                calls.append({"failure": describe(error, task.path)})
    return calls
