# One call of the forward function of a task folder.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from draw_base import Captured, Draw, FolderTask
from float64_place import Cpu
from float64_truth import in_float64
from oracle_types import Json
from task_code import no_random_numbers, output_list
from task_error import TaskError
from tensor_values import Change, Noise, Outputs, cloned, detached, leaves, tree_map


def tensors_at(args: Any, positions: Sequence[int]) -> list[torch.Tensor]:
    tensors = [v for v in leaves(args) if isinstance(v, torch.Tensor)]
    return [tensors[p] for p in positions]


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() <= 1:  # with a stride it counts as contiguous, but has no view as bytes
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def changed_contents(args: Any, after: Any) -> set[int]:
    """Positions, among the tensors of the arguments, of those with other bytes after a call: batch_norm changes
    its running statistics without counting."""
    pairs = zip(*([bytes_of(v) for v in leaves(values) if isinstance(v, torch.Tensor)] for values in (args, after)))
    return {i for i, (a, b) in enumerate(pairs) if not torch.equal(a, b)}


def versions(args: Any) -> list[int]:
    """PyTorch counts the operations that change a tensor in place, whatever its contents."""
    return [v._version for v in leaves(args) if isinstance(v, torch.Tensor)]


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
                calls.append((args, None, []))
                raise Captured()
            copies = tree_map(cloned, args)
            before = versions(copies)
            with no_random_numbers(), self.trace.record(copies):
                result = self.function(*copies)
            found = {i for i, (a, b) in enumerate(zip(before, versions(copies))) if a != b}
            found |= changed_contents(args, copies)
            self.changed = task.changed_by(init, inputs, found)
            after = tensors_at(copies, self.changed)
            calls.append((args, result, after))
            return result

        with torch.no_grad():
            model, arguments = task.build(init, inputs)
            with contextlib.suppress(Captured):
                model(*arguments, fn=record)
        if len(calls) != 1:
            raise TaskError("Model.forward calls fn %d times; a case is one call" % len(calls))
        self.args, result, after = calls[0]
        if not answer:
            return
        self.outputs, self.is_tuple = output_list(result)
        self.names = ["output %d" % i if self.is_tuple else "output"
                      for i in range(len(self.outputs))]
        names = list(inspect.signature(self.function).parameters)
        owners = [i for i, a in enumerate(self.args) for v in leaves(a) if isinstance(v, torch.Tensor)]
        self.names += ["%s after the call" % (names[owners[p]] if owners[p] < len(names) else "argument %d" % p)
                       for p in self.changed]
        self.outputs = list(self.outputs) + after

    def reference(self) -> Outputs:
        return self.outputs

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        args = self.doubles(self.args, noise, place)
        with torch.no_grad(), place.reference(), in_float64(), self.trace.repeat():
            result = output_list(self.function(*args))[0]
            return list(result) + tensors_at(args, self.changed)
