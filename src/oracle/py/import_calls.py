# A problem that is being imported, and calls of its module, mostly on tensors without data.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import os
import sys
import time
from types import ModuleType
from typing import Any

import torch

import import_folder
import import_text
import import_watch
from cuda_on_cpu import OnCpu
from import_problem import Problem
from import_text import Sizes
from oracle_types import Json, Report
from task_code import output_list, randomness
from task_error import TaskError
from tensor_values import Outputs, cloned, tree_map


class Call:
    """One call: its arguments, its outputs and its cost."""

    def __init__(self, arguments: list[Any], outputs: Outputs, is_tuple: bool, cost: import_watch.Cost,
                 seconds: float) -> None:
        self.arguments, self.outputs, self.is_tuple = arguments, outputs, is_tuple
        self.cost, self.seconds = cost, seconds

    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(a.shape) for a in self.arguments if isinstance(a, torch.Tensor)]

    def argument_elements(self) -> int:
        return sum(math.prod(s) for s in self.shapes())


class ImportCalls:
    """A problem that is being imported, with what is known about it (`facts`)."""

    def __init__(self, request: Json, report: Report, devices: OnCpu) -> None:
        self.request, self.report, self.devices = request, report, devices
        self.deadline = time.monotonic() + request.get("seconds", 60)
        with open(request["path"], encoding="utf-8", errors="strict") as file:
            text = file.read()
        self.problem = Problem(request)
        self.source = import_text.Source(text, self.problem.inputs_name, self.problem.init_name)
        self.facts = facts = import_folder.Facts()
        facts.name = request["name"]
        facts.file = "".join(c for c in os.path.basename(request["path"]) if c.isprintable())
        facts.inputs_are_made = callable(self.problem.inputs)
        facts.maker, facts.init = self.problem.inputs_name, self.problem.init_name
        facts.has_init = self.problem.init is not None
        facts.evaluate = bool(request.get("evaluate"))
        facts.construct = self.problem.construct_expression()
        facts.title = self.title()
        facts.notes = []
        facts.keys = list(self.source.sizes())
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.is_fake = True  # the constructor and get_inputs work on tensors without data
        self.fake_forward = True  # forward does, too

    def title(self) -> str:
        doc = inspect.getdoc(self.problem.makes) if inspect.isclass(self.problem.makes) else None
        line = " ".join((doc or "").strip().split("\n\n")[0].split()).split(". ")[0]
        own = self.problem.makes.__dict__.get("__doc__") if doc else None
        line = "".join(c for c in line if c.isprintable())
        return line.rstrip(".")[:200] if own and line else ""

    def generated(self) -> ModuleType:
        """func_forward.py as a module that uses the already loaded problem."""
        text = import_folder.func_forward(self.source, self.facts)
        module = type(sys)("cupel_import")
        module.__file__ = os.path.join(os.path.dirname(self.request["path"]), "func_forward.py")
        text = text.replace("\nproblem = load_problem()\n", "\n")
        module.problem = self.problem.module
        exec(compile(text, module.__file__, "exec"), module.__dict__)
        return module

    def split(self, sizes: Sizes) -> tuple[Sizes, Sizes]:
        keys = self.source.keywords_of
        return ({k: v for k, v in sizes.items() if k in keys(self.facts.maker, self.facts.keys)},
                {k: v for k, v in sizes.items() if k in keys(self.facts.init, self.facts.keys)})

    def make(self, generated: ModuleType, sizes: Sizes) -> tuple[torch.nn.Module, list[Any]]:
        """(module, inputs), made in the same order as for cases."""
        for_inputs, for_init = self.split(sizes)
        made = generated.get_inputs
        inputs = made(**for_inputs) if callable(made) else made
        if isinstance(inputs, dict):
            raise TaskError("%s returns a dict; it must return a list of positional arguments"
                            % self.facts.maker)
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        return generated.Model(**for_init).problem, inputs

    def call(self, generated: ModuleType, sizes: Sizes, forward: bool = True, is_fake: bool | None = None) -> Call:
        """Calls the module itself, on tensors without data if that works."""
        started = time.monotonic()
        is_fake = self.is_fake if is_fake is None else is_fake
        fake = import_watch.fake_tensors() if is_fake else None
        forward = forward and (self.fake_forward or not is_fake)
        with fake or contextlib.nullcontext(), torch.no_grad():
            model, inputs = self.make(generated, sizes)
            state = [v for v in model.state_dict().values() if isinstance(v, torch.Tensor)]
            outputs, is_tuple, cost = [], False, import_watch.Cost()
            if forward:
                before = None if is_fake else randomness()
                with import_watch.watching(
                        import_watch.MAX_OPERATIONS if is_fake else math.inf) as cost:
                    result = model(*tree_map(cloned, tuple(inputs)))
                self.refuse_random(cost, before)
                outputs, is_tuple = output_list(result)
        self.model, self.inputs = model, inputs
        return Call(list(inputs) + state, outputs, is_tuple, cost, time.monotonic() - started)

    def refuse_random(self, cost: import_watch.Cost, before: list[Any] | None) -> None:
        if not cost.random and (before is None or randomness() == before):
            return
        what = " (%s)" % cost.random[0] if cost.random else ""
        dropout = any("dropout" in n or "bernoulli" in n for n in cost.random)
        raise TaskError(
            "forward draws random numbers%s, so it has no single correct result%s" %
            (what, "; use --eval to import it without its dropout" if dropout else
             "; pass them as an input"))

    def first_call(self) -> Call:
        """Calls without data if possible: first everything, then everything except forward."""
        generated, sizes = self.generated(), self.sizes()
        for self.is_fake, self.fake_forward in ((True, True), (True, False)):
            try:
                return self.call(generated, sizes)
            except TaskError:
                raise
            except Exception:  # the code reads data, or PyTorch cannot infer shapes of an operation
                pass
        self.is_fake, self.fake_forward = False, True
        return self.call(generated, sizes)

    def sizes(self) -> Sizes:
        return {k: self.source.numbers[k] for k in self.facts.keys}

    def is_for_init(self, key: str) -> bool:
        return key in self.source.closure(self.source.reads.get(self.facts.init, ()))
