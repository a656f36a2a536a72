# Loads a Python file that is to be imported, and finds its module and example inputs.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
from typing import Any

import torch

from oracle_types import Json
from task_code import load_module
from task_error import TaskError


class Problem:
    """A loaded file with its module and inputs."""

    def __init__(self, request: Json) -> None:
        self.path = request["path"]
        self.module = load_module(self.path)
        self.makes = self.find(request.get("module"), "Model", "module", self.modules())
        self.inputs = self.find(request.get("inputs"), "get_inputs", "inputs", self.functions())
        self.inputs_name = request.get("inputs") or "get_inputs"
        self.init_name = request.get("init") or "get_init_inputs"
        self.init = getattr(self.module, self.init_name, None)
        if request.get("init") and self.init is None:
            raise TaskError("it does not define %s" % self.init_name)
        self.module_name = request.get("module") or "Model"

    def modules(self) -> list[str]:
        return [n for n, v in vars(self.module).items() if inspect.isclass(v)
                and issubclass(v, torch.nn.Module) and v.__module__ == self.module.__name__]

    def functions(self) -> list[str]:
        return [n for n, v in vars(self.module).items() if inspect.isfunction(v)
                and v.__module__ == self.module.__name__]

    def find(self, name: str | None, usual: str, option: str, known: list[str]) -> Any:
        wanted = name or usual
        if hasattr(self.module, wanted):
            return getattr(self.module, wanted)
        names = ": " + ", ".join(known[:8]) if known else ""
        raise TaskError("it does not define %s; give its name with --%s%s" %
                               (wanted, option, names))

    def construct_expression(self) -> str:
        """The text of an expression that builds the module."""
        made = "problem.%s" % self.module_name
        if isinstance(self.makes, torch.nn.Module):
            return "copy.deepcopy(%s)" % made
        if self.init is None:
            return made + "()"
        given = self.init() if callable(self.init) else self.init
        if isinstance(given, dict):
            return made + "(**get_init_inputs())"
        if not isinstance(given, (list, tuple)):
            raise TaskError("%s returns a %s; it must return a list of the constructor's "
                                   "arguments" % (self.init_name, type(given).__name__))
        if len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict):
            return "(lambda a, k: %s(*a, **k))(*get_init_inputs())" % made
        return made + "(*get_init_inputs())"
