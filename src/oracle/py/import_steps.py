# The steps of an import: finds how to call a problem's module and the sizes to use, writes the task
# folder's files, and compares the task with the problem.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import time
from typing import Any

import torch

import import_compare
import import_folder
import import_functional
import import_sizes
import import_text
from case_file import dtype_name
from import_calls import Call, ImportCalls
from import_text import Sizes
from oracle_types import Json
from task_error import TaskError

LARGEST_GPU = 300e9  # bytes


def shape_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "%s %s" % (dtype_name(value.dtype), list(value.shape))
    if isinstance(value, (list, tuple)):
        return "(%s)" % ", ".join(shape_text(v) for v in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)[:60]
    raise TaskError("an input is a %s; a kernel can only get tensors, None, numbers, strings "
                    "and tuples" % type(value).__name__)


class Import(ImportCalls):
    """The steps of an import; run() takes all of them."""

    def run(self) -> Json:
        self.report("running it on tensors without data")
        base = self.first_call()
        self.describe(base)
        import_sizes.keep_visible_sizes(self, base)
        base_sizes = self.sizes()
        if self.too_large(base):
            self.report("looking for smaller sizes")
            self.facts.reduced = import_sizes.reduce(self, base)
        if not self.fake_forward:
            self.run_forward(base)
        if time.monotonic() > self.deadline:
            self.facts.notes.append("Not all sizes were examined within %d s (raise --seconds)." %
                                    self.request.get("seconds", 60))
        self.call(self.generated(), base_sizes, False)  # the module at its own sizes
        self.facts.functional = import_functional.rewrite(self)
        compared = self.compare_best(self.facts.reduced or base_sizes, base)
        source, facts = self.source, self.facts
        if self.devices.used:
            facts.notes.append("The file names CUDA devices. As for every task, inputs and weights are made "
                               "on the CPU and copied to the device that judges.")
        elements = max(base.cost.elements, base.argument_elements())
        if elements * 4 > LARGEST_GPU:
            facts.notes.append("A call at these sizes needs about %.3g TB, more than any GPU has: reduce the "
                               "sizes in config_forward.json." % (elements * 4 / 1e12))
        return {"files": {"func_forward.py": import_folder.func_forward(source, facts),
                          "config_forward.json": import_folder.config(source, facts),
                          "task.json": import_folder.task_json(facts, self.digest)},
                "title": facts.title or facts.name, "sizes": base_sizes, "reduced": facts.reduced,
                "arguments": list(facts.described), "functional": facts.functional is not None,
                "compared": compared, "notes": facts.notes,
                "elements": elements, "flops": base.cost.flops, "warnings": [],
                "torch": torch.__version__}

    def describe(self, base: Call) -> None:
        facts = self.facts
        parameters = [p for p in inspect.signature(self.model.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        facts.inputs = [parameters[i].name if i < len(parameters) else "input_%d" % i
                        for i in range(len(self.inputs))]
        facts.state = [k for k, v in self.model.state_dict().items() if isinstance(v, torch.Tensor)]
        facts.described = [shape_text(a) for a in base.arguments]
        for path in facts.state:
            if not all(piece for piece in path.split(".")):
                raise TaskError("a parameter has the invalid name %r" % path)
        import_text.argument_names(facts.inputs, facts.state)

    def run_forward(self, base: Call) -> None:
        """Runs forward with data, if it does not work without."""
        if not self.facts.reduced and self.too_large(base):
            self.facts.notes.append("forward is too large to run here and was not examined.")
            return
        self.report("running it with data")
        try:
            self.call(self.generated(), self.facts.reduced or self.sizes(), True, False)
        except TaskError:
            raise
        except Exception:
            if not self.facts.reduced:
                raise
            self.facts.reduced = {}  # these sizes do not work together
            self.run_forward(base)

    def too_large(self, call: Call) -> bool:
        return import_sizes.excess_of(self, call) > 1

    def compare_best(self, sizes: Sizes, base: Call) -> str:
        """Keeps the forward_fn of plain functions only if it gives the file's results."""
        if self.facts.functional is not None:
            notes = list(self.facts.notes)
            try:
                compared = self.compare(sizes, base)
            except Exception:
                compared = ""
            if compared:
                return compared
            self.facts.functional, self.facts.notes = None, notes
        return self.compare(sizes, base)

    def compare(self, sizes: Sizes, base: Call) -> str:
        """Compares the folder with the file bit for bit. Returns the sizes of the comparison, or ""."""
        if not self.facts.reduced and self.too_large(base):
            self.facts.notes.append("The task is too large to compare it with the file here.")
            return ""
        self.report("comparing both")
        import_compare.compare(self, self.generated(), sizes)
        return "reduced sizes" if self.facts.reduced else "its own sizes"
