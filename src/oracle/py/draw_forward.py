# One call of the forward function of a task folder.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch

from draw_base import Captured, Draw, FolderTask
from float64_place import Cpu
from float64_truth import in_float64
from oracle_types import Json
from task_code import no_random_numbers, output_list
from task_error import TaskError
from tensor_values import Change, Noise, Outputs, cloned, detached, tree_map


class ForwardDraw(Draw):
    """robust-kbench forward: the arguments that Model.forward passes to `fn`."""

    def __init__(self, task: FolderTask, init: Json, inputs: Json, answer: bool = True) -> None:
        super().__init__()
        self.function = task.function
        calls = []

        def record(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                bound = inspect.signature(self.function).bind(*args, **kwargs)
                args = bound.args
                if bound.kwargs:
                    raise TaskError("Model.forward passes keyword-only arguments to fn")
            args = tuple(tree_map(task.spread, tree_map(detached, a)) for a in args)
            if not answer:
                calls.append((args, None))
                raise Captured()
            copies = tree_map(cloned, args)
            with no_random_numbers(), self.trace.record(copies):
                result = self.function(*copies)
            calls.append((args, result))
            return result

        with torch.no_grad():
            model, arguments = task.build(init, inputs)
            with contextlib.suppress(Captured):
                model(*arguments, fn=record)
        if len(calls) != 1:
            raise TaskError("Model.forward calls fn %d times; a case is one call" % len(calls))
        self.args, result = calls[0]
        if not answer:
            return
        self.outputs, self.is_tuple = output_list(result)
        self.names = ["output %d" % i if self.is_tuple else "output"
                      for i in range(len(self.outputs))]

    def reference(self) -> Outputs:
        return self.outputs

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        args = self.doubles(self.args, noise, place)
        with torch.no_grad(), place.reference(), in_float64(), self.trace.repeat():
            return output_list(self.function(*args))[0]
