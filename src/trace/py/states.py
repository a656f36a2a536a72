# Finds out which of the task's tensors a program's parameters and buffers are. KernelBench constructs the task's
# module and the program's from one seed; so a parameter is the task's if both made it with the same operations on the
# same random numbers. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from recording import Recording
from storages import CUDA, Storage, is_whole


class Bound:
    """A constructed module. `states`: for each of its storages that is an argument of the task, the argument."""

    def __init__(self, model: Any) -> None:
        self.model, self.states, self.notes = model, {}, []


def bind(recording: Recording, model: Any, arguments: list[dict[str, Any]], made: list[tuple[str, str]]) -> Bound:
    """`arguments`: the task's (signature.py). `made`: how the task's module makes its state."""
    bound = Bound(model)
    if not isinstance(model, torch.nn.Module):
        return bound
    own = [(path, tensor) for path, tensor in model.state_dict(keep_vars=True).items()
           if isinstance(tensor, torch.Tensor)]
    to_gpu(recording, model)
    wanted = [dict(argument, number=i, content=dict(made).get(argument.get("path")))
              for i, argument in enumerate(arguments) if argument["kind"] == "state"]
    left = match(recording, own, wanted, bound, lambda path, tensor, state: (
        state["content"] is not None and state["content"] == recording.content_of(tensor) and path == state["path"]))
    left = match(recording, left, wanted, bound, lambda path, tensor, state: (
        state["content"] is not None and state["content"] == recording.content_of(tensor)))
    differing = [path for path, _ in left]
    left = match(recording, left, wanted, bound, lambda path, tensor, state: path == state["path"])
    named = [path for path in differing if path not in [p for p, _ in left]]
    if named and made:
        bound.notes.append("ModelNew makes %s in another way than the task; the task's values are used" %
                           ", ".join(named[:8]))
    if len(left) == len(wanted) and left:
        names = ", ".join("%s as the task's %s" % (path, state["path"])
                          for (path, _), state in zip(left, wanted, strict=True))
        bound.notes.append("parameters are used by their position: %s" % names[:400])
        for (path, tensor), state in zip(left, list(wanted), strict=True):
            take(recording, path, tensor, state, bound)
    else:
        for path, tensor in left:
            recording.storage_of(tensor).label = path
    return bound


def match(recording: Recording, own: Any, wanted: list[dict[str, Any]], bound: Bound, fits: Any) -> list[Any]:
    """Binds each tensor to the first state that fits. Returns the others."""
    left = []
    for path, tensor in own:
        state = next((s for s in wanted if fits(path, tensor, s)), None)
        if state is None or not is_whole(tensor, recording.storage_of(tensor)):
            left.append((path, tensor))
            continue
        wanted.remove(state)
        take(recording, path, tensor, state, bound)
    return left


def take(recording: Recording, path: str, tensor: torch.Tensor, state: dict[str, Any], bound: Bound) -> None:
    storage: Storage = recording.storage_of(tensor)
    storage.label = path
    bound.states[state["number"]] = (storage, tensor, path)


def to_gpu(recording: Recording, model: torch.nn.Module) -> None:
    """As model.cuda() does: parameters and buffers."""
    for tensor in list(model.parameters()) + list(model.buffers()):
        storage = recording.storages.find(tensor)
        if storage is not None:
            storage.device = CUDA
