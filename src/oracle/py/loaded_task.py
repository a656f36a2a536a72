# A task whose file is loaded: builds its module and inputs, and draws calls of its function.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

import cuda_on_cpu
from carried_integers import Carried
from delivered import Layout, delivered_layouts
from draw_backward import BackwardDraw
from draw_base import Draw
from draw_forward import ForwardDraw
from draw_problem import ProblemDraw
from oracle_types import Json
from rounded_numbers import Numbers
from task_code import accepted_keys, load_module, seed_everything
from task_error import TaskError
from tensor_values import as_on_device, tree_map, unchanged


class Task:
    def __init__(self, request: Json) -> None:
        self.path, self.direction = request["path"], request["direction"]
        self.name, self.hash = request["name"], request["hash"]
        self.is_problem = request["format"] == "kernelbench"
        self.warnings, self.checked = [], False
        self.warned: set[str] = set()
        self.on_cpu = request.get("on_cpu", False)  # whether the GPU cannot compute its truth
        self.scales = {}
        self.carried: dict[str, Carried] = {}  # by setting: see distribution_cases.carried_of
        self.movable: dict[str, list[int]] = {}  # by setting and kind: Spread.movable
        self.changed: dict[str, set[int]] = {}  # by setting: see changed_by
        self.layouts: dict[str, list[Layout | None]] = {}  # by setting
        self.spread: Callable[[Any], Any] = unchanged
        self.module = load_module(self.path)
        self.numbers = Numbers(self.module)
        self.model_class = self.need("Model", "class Model(nn.Module)")
        self.get_inputs = self.need("get_inputs", "get_inputs() that returns the inputs")
        if self.is_problem:
            return
        parameter = inspect.signature(self.model_class.forward).parameters.get("fn")
        if parameter is None:
            raise TaskError("%s: Model.forward has no parameter `fn`, the function to replace" % self.path)
        self.function = parameter.default
        if not callable(self.function):
            self.function = self.need("forward_fn", "forward_fn, the reference")
        if self.direction == "backward":
            self.autograd = self.need("AutogradFunction", "class AutogradFunction(Function)")

    def need(self, name: str, what: str) -> Any:
        if not hasattr(self.module, name):
            raise TaskError("%s does not define %s" % (self.path, what))
        return getattr(self.module, name)

    def warn(self, message: str) -> None:
        """Once for messages that only differ in numbers: they are about other settings or inputs."""
        kind = re.sub(r"[0-9.e+-]+", "", message)
        if kind not in self.warned:
            self.warned.add(kind)
            self.warnings.append(message)

    def build(self, init: Json, inputs: Json) -> tuple[torch.nn.Module, list[Any]]:
        """(model, arguments) of a folder task. Both use one stream of random numbers, so that the weights
        do not repeat the inputs."""
        init_kept, init_dropped = accepted_keys(self.model_class.__init__, init)
        inputs_kept, inputs_dropped = accepted_keys(self.get_inputs, inputs)
        for key in init_dropped:
            if key not in inputs_kept:  # a shared key may be accepted by only one of them
                self.warn("the configuration has %r, which Model does not accept; ignored" % key)
        for key in inputs_dropped:
            if key not in init_kept:
                self.warn("the configuration has %r, which get_inputs does not accept; ignored" % key)
        arguments = self.get_inputs(**inputs_kept)
        if not isinstance(arguments, (list, tuple)):
            arguments = [arguments]
        arguments = [tree_map(lambda v: as_on_device(v.detach())
                              if isinstance(v, torch.Tensor) else v, a) for a in arguments]
        return self.model_class(**init_kept), arguments

    def changed_by(self, init: Json, inputs: Json, found: set[int]) -> list[int]:
        """What a call on the task's own numbers changes, calls on others (zeros) change by contract, too. A draw of
        the task's own numbers comes first (carried_in)."""
        known = self.changed.setdefault(json.dumps([init, inputs], sort_keys=True), set())
        if self.spread is unchanged:
            known |= found
        return sorted(known | found)

    def gradient_layouts(self, init: Json, inputs: Json) -> list[Layout | None]:
        """Of the function's results in a backward call, as autograd delivers them."""
        key = json.dumps([init, inputs], sort_keys=True)
        if key not in self.layouts:
            self.layouts[key] = delivered_layouts(lambda: self.build(init, inputs), self.function)
        return self.layouts[key]

    def construct(self, seed: int) -> tuple[torch.nn.Module, Sequence[Any]]:
        """(model, inputs) of a KernelBench problem."""
        seed_everything(seed)
        inputs = self.get_inputs()
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        if (isinstance(init, (list, tuple)) and len(init) == 2 and isinstance(init[0], (list, tuple))
                and isinstance(init[1], dict)):
            return self.model_class(*init[0], **init[1]), inputs
        if isinstance(init, dict):
            return self.model_class(**init), inputs
        return self.model_class(*init), inputs

    def draw(self, seed: int, init: Json, inputs: Json, spread: Callable[[Any], Any] = unchanged,
             answer: bool = True) -> Draw:
        """`spread`: replaces the tensors that the task draws (distributions.py)."""
        seed_everything(seed)
        self.spread = spread
        with cuda_on_cpu.OnCpu(watches=True):
            if self.is_problem:
                return ProblemDraw(self, seed, answer)
            kind = BackwardDraw if self.direction == "backward" else ForwardDraw
            return kind(self, init, inputs, answer)
