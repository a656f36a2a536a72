# Baselines that are not the task's own code: functions of other Python files (task/named_baseline.h).
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from task_code import load_module
from task_error import TaskError

LONGEST = 200  # letters of what is said about libraries


class Unavailable(Exception):
    """A library is missing. str() says which."""


class NamedBaseline:
    def __init__(self, path: str, name: str) -> None:
        self.module = load_module(path, alone=True)
        with open(path, encoding="utf-8") as file:
            self.may_compile = "compile" in file.read()
        requires = getattr(self.module, "requires", [])
        if not isinstance(requires, (list, tuple)) or not all(isinstance(name, str) for name in requires):
            raise TaskError("%s: `requires` is not a list of names of packages" % os.path.basename(path))
        self.libraries = versions(requires)
        describe = getattr(self.module, "libraries", None)
        if callable(describe):
            self.libraries = ", ".join(filter(None, [self.libraries, str(describe())]))
        self.libraries = self.libraries[:LONGEST]
        self.function = getattr(self.module, name, None)
        if not callable(self.function):
            raise TaskError("%s does not define a function %s" % (os.path.basename(path), name))

    def of(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """What to call instead of `plain`. A function for a KernelBench problem gets the module, because the
        module has the parameters."""
        return self.function(plain) if isinstance(plain, torch.nn.Module) else self.function


def versions(distributions: Sequence[str]) -> str:
    """"liger-kernel 0.8.5, triton 3.6.0"."""
    found = []
    for name in distributions:
        try:
            found.append("%s %s" % (name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            raise Unavailable("it needs %s, which is not installed: pip install %s" % (name, name)) from None
    return ", ".join(found)
