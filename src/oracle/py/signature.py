# Finds the arguments of a task's function, for Python programs: their names and kinds, and the
# arguments of the module's constructor. Runs task code as import_task.py does: on tensors without
# data if that works. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch

import import_text
import import_watch
from draw_base import Captured
from loaded_task import Task
from oracle_types import Json
from task_code import accepted_keys
from task_error import TaskError


def kind_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    for kind, types in (("none", type(None)), ("bool", bool), ("int", int), ("float", float),
                        ("string", str), ("tuple", (tuple, list))):
        if isinstance(value, types):
            return kind
    raise TaskError("an argument has the unsupported type %s" % type(value).__name__)


def known(value: Any, sizes: Iterable[str] = ()) -> Json:
    """A constructor's argument as JSON. It has a "value" only if the argument is plain data."""
    plain = value is None or isinstance(value, (bool, int, float, str))
    if isinstance(value, (list, tuple)):
        plain = all(isinstance(v, (bool, int, float)) for v in value)
        value = list(value)
    return {"value": value, "sizes": sorted(sizes)} if plain else {}


def names_of(function: Callable[..., Any], count: int) -> list[str]:
    parameters = [p.name for p in inspect.signature(function).parameters.values()
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [parameters[i] if i < len(parameters) else "argument_%d" % i for i in range(count)]


def of_problem(task: Task) -> Json:
    model, inputs = task.construct(1)
    state = [(k, v) for k, v in model.state_dict().items()
             if isinstance(v, torch.Tensor)]
    inputs_names = names_of(model.forward, len(inputs))
    names = import_text.argument_names(inputs_names, [k for k, _ in state])
    arguments = [{"name": n, "kind": "input", "type": kind_of(v)} for n, v in zip(names, inputs)]
    arguments += [{"name": n, "kind": "state", "type": "tensor", "path": k}
                  for n, (k, _) in zip(names[len(inputs):], state)]
    given = task.module.get_init_inputs() if hasattr(task.module, "get_init_inputs") else []
    args, keywords = given, {}
    if isinstance(given, dict):
        args, keywords = [], given
    elif len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict):
        args, keywords = given
    return {"arguments": arguments, "sizes": {}, "init": {
        "args": [known(v) for v in args], "keywords": {k: known(v) for k, v in keywords.items()}}}


def of_folder(task: Task, request: Json) -> Json:
    model, inputs = task.build(request["init"], request["inputs"])
    seen = []

    def record(*args: Any, **kwargs: Any) -> NoReturn:
        seen.append(inspect.signature(task.function).bind(*args, **kwargs).args)
        raise Captured()

    with contextlib.suppress(Captured):
        model(*inputs, fn=record)
    if not seen:
        raise TaskError("Model.forward never calls fn")
    imported = getattr(task.module, "STATE", None)
    paths = list(imported) if imported is not None else []
    by_identity = {id(v): k for k, v in model.state_dict(keep_vars=True).items()}
    names = import_text.argument_names(names_of(task.function, len(seen[0])), [])
    arguments = []
    for i, (name, value) in enumerate(zip(names, seen[0])):
        entry = {"name": name, "kind": "constant", "type": kind_of(value)}
        if i < len(inputs) and value is inputs[i]:
            entry["kind"] = "input"
        elif isinstance(value, torch.Tensor):
            place = i - len(inputs)
            entry["kind"] = "state"
            entry["path"] = (paths[place] if 0 <= place < len(paths)
                             else by_identity.get(id(value), name))
        arguments.append(entry)
    return {"arguments": arguments, "init": constructor_of(task, request["init"]),
            "sizes": {k: v for k, v in request["init"].items() if isinstance(v, (int, str))}}


def constructor_of(task: Task, init: Json) -> Json:
    """For an imported task: the arguments of the problem's own constructor, and the sizes that each
    depends on. Otherwise: Model's keyword arguments."""
    makes = getattr(task.module, "get_init_inputs", None)
    if makes is None:
        return {"args": [], "keywords": {k: known(v, [k]) for k, v in init.items()}}
    kept, _ = accepted_keys(makes, init)
    base = list(makes(**kept))
    sizes = [set() for _ in base]
    for key, value in kept.items():
        if isinstance(value, int):
            for i, changed in enumerate(makes(**dict(kept, **{key: value + 1}))):
                if changed != base[i]:
                    sizes[i].add(key)
    return {"args": [known(v, s) for v, s in zip(base, sizes)], "keywords": {}}


def signature(request: Json) -> Json:
    task = Task(dict(request, direction="forward"))
    failure = None
    for fake in (import_watch.fake_tensors(), contextlib.nullcontext()):
        try:
            with fake or contextlib.nullcontext(), torch.no_grad():
                return of_problem(task) if task.is_problem else of_folder(task, request)
        except Exception as error:
            failure = error
    raise failure
