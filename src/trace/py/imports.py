# Runs a function when a program imports a package for the first time, itself or through another package.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Watched(Loader):
    def __init__(self, loader: Loader, function: Callable[[], None]) -> None:
        self.loader, self.function = loader, function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader  # as inspect and importlib.resources expect
        self.loader.exec_module(module)
        self.function()


class Watcher(MetaPathFinder):
    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name, self.function = name, function

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = Watched(spec.loader, self.function)
        return spec


def when_imported(name: str, function: Callable[[], None]) -> None:
    """Runs `function` after the package `name` has been imported: now if it already is."""
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, Watcher(name, function))
