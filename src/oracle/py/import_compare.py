# Compares an imported task with the file that it comes from. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

import float8
from draw_problem import ProblemDraw
from import_calls import ImportCalls
from import_text import Sizes
from task_code import output_list, seed_everything
from task_error import TaskError
from tensor_values import cloned, tree_map, unchanged


class Reduced:
    """A ProblemTask: the file's own module at given sizes."""

    def __init__(self, importing: ImportCalls, generated: ModuleType, sizes: Sizes) -> None:
        self.importing, self.generated, self.sizes = importing, generated, sizes
        self.spread: Callable[[Any], Any] = unchanged
        self.checked = False

    def construct(self, seed: int) -> tuple[torch.nn.Module, list[Any]]:
        seed_everything(seed)
        return self.importing.make(self.generated, self.sizes)

    def warn(self, message: str) -> None:
        note = message[0].upper() + message[1:] + "."
        if note not in self.importing.facts.notes:
            self.importing.facts.notes.append(note)


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = float8.wide(a), float8.wide(b)
    return bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def note_changes(importing: ImportCalls, buffers: set[str], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Notes which arguments forward changes: in the folder, these changes are results, too. Buffers, such as running
    means, are excluded, since they are meant to change."""
    facts = importing.facts
    changed = [name for name, b, a in zip(list(facts.inputs) + list(facts.state), before, after)
               if isinstance(b, torch.Tensor) and name not in buffers and not same(b, a)]
    if changed:
        facts.notes.append("forward changes %s in place. A kernel for this folder must do so, too: what the call leaves "
                           "there is judged as a result." % ", ".join(changed))


def compare(importing: ImportCalls, generated: ModuleType, sizes: Sizes) -> None:
    """Raises TaskError if the folder's result differs from the file's in any bit."""
    direct = ProblemDraw(Reduced(importing, generated, sizes), 1)
    seen = []

    def record(*args: Any) -> Any:
        seen.append(args)
        copies = tree_map(cloned, args)
        result = generated.forward_fn(*copies)
        buffers = {name for name, _ in direct.model.named_buffers()}
        note_changes(importing, buffers, args, copies)
        return result

    seed_everything(1)
    for_inputs, for_init = importing.split(sizes)
    made = generated.get_inputs
    inputs = made(**for_inputs) if callable(made) else made
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    with torch.no_grad():
        result = generated.Model(**for_init)(*inputs, fn=record)
    outputs, is_tuple = output_list(result)
    arguments = [a for a in seen[0] if isinstance(a, torch.Tensor)]
    wanted = [a for a in direct.args if isinstance(a, torch.Tensor)]
    if len(arguments) != len(wanted) or not all(map(same, arguments, wanted)):
        raise TaskError("the folder would pass different arguments than the file")
    if is_tuple != direct.is_tuple or len(outputs) != len(direct.outputs) or not all(
            map(same, outputs, direct.outputs)):
        raise TaskError("the folder would give a different result than the file")
