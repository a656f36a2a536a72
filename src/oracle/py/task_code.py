# Loads a task's file, calls its functions with seeded random numbers, and checks what they return.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from task_error import TaskError
from tensor_values import Outputs


def load_module(path: str, alone: bool = False) -> ModuleType:
    """`alone`: without the modules beside it, whose names could hide those of libraries."""
    name = "cupel_task_" + hashlib.sha256(path.encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise TaskError("%s is not a Python file" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look here
    folders = [] if alone else [os.path.dirname(os.path.abspath(path))]
    sys.path[:0] = folders
    try:
        spec.loader.exec_module(module)
    finally:
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)
    return module


def accepted_keys(function: Callable[..., Any], values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(keyword arguments that the signature accepts, names of the others)."""
    if function is torch.nn.Module.__init__:  # of a class without its own: it names none, but refuses all
        return {}, list(values)
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return dict(values), []
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return ({k: v for k, v in values.items() if k in names},
            [k for k in values if k not in names])


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed & 0xFFFFFFFFFFFFFFFF)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)


def seed_from(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def randomness() -> list[Any]:
    state = [bytes(torch.get_rng_state().numpy().tobytes()), random.getstate()]
    if "numpy" in sys.modules:
        state.append(sys.modules["numpy"].random.get_state()[1].tobytes())
        state.append(sys.modules["numpy"].random.get_state()[2])
    return state


@contextlib.contextmanager
def no_random_numbers() -> Iterator[None]:
    before = randomness()
    yield
    if randomness() != before:
        raise TaskError("the reference draws random numbers (dropout in train mode, torch.randn …), "
                        "so it has no single correct result; it cannot be a task")


def output_list(result: Any) -> tuple[Outputs, bool]:
    """(outputs, is_tuple). Raises TaskError unless all outputs are tensors or None."""
    many = isinstance(result, (list, tuple))
    outputs = list(result) if many else [result]
    for output in outputs:
        if output is not None and not isinstance(output, torch.Tensor):
            raise TaskError("the reference returns a %s; it must return a tensor or a flat tuple of "
                            "tensors" % type(output).__name__)
    if not any(isinstance(o, torch.Tensor) for o in outputs):
        raise TaskError("the reference returns no tensor; let it return its results, also those that it writes to "
                        "an argument")
    return outputs, many
