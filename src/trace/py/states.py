# Finds out which of the task's tensors a program's parameters and buffers are. KernelBench constructs the task's
# module and the program's from one seed; so a storage has the task's values if both made it with the same operations on
# the same random numbers. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from recording import Recording
from storages import CUDA, Storage, is_whole


class Bound:
    """A constructed module. `states`: by the number of a task's argument, the storage that has its values."""

    def __init__(self, model: Any) -> None:
        self.model, self.notes = model, []
        self.states: dict[int, Storage] = {}
        self.named: dict[int, Any] = {}  # by argument: a tensor of its name, which may have another type


def bind(recording: Recording, model: Any, arguments: list[dict[str, Any]], made: list[tuple[str, str]],
         first: int) -> Bound:
    """`arguments`: the task's (signature.py). `made`: how the task's module makes its state. `first`: the number of
    the first storage that the program's construction made."""
    bound = Bound(model)
    if not isinstance(model, torch.nn.Module):
        return bound
    own = {path: tensor for path, tensor in model.state_dict(keep_vars=True).items()
           if isinstance(tensor, torch.Tensor)}
    to_gpu(recording, model)
    contents = dict(made)
    wanted = {i: a for i, a in enumerate(arguments) if a["kind"] == "state"}
    whole = {path: recording.storage_of(tensor) for path, tensor in own.items()
             if is_whole(tensor, recording.storage_of(tensor))}
    constructed = recording.storages.all[first:]

    def take(number: int, storage: Storage) -> None:
        bound.states[number] = storage
        storage.label = wanted.pop(number).get("path", "")

    def is_free(storage: Storage) -> bool:
        return not any(storage is taken for taken in bound.states.values())

    for number, argument in list(wanted.items()):  # made as the task makes it, with the same name
        storage = whole.get(argument["path"])
        if storage is not None and storage.made == contents.get(argument["path"]):
            take(number, storage)
    for number, argument in list(wanted.items()):  # with another name, or an earlier form of a parameter
        content = contents.get(argument["path"])
        same = next((s for s in [*whole.values(), *constructed] if s.made == content and is_free(s)), None)
        if content is not None and same is not None:
            take(number, same)
    differing = []
    for number, argument in list(wanted.items()):  # made in another way
        tensor = own.get(argument["path"])
        if tensor is not None and is_free(recording.storage_of(tensor)):
            differing.append(argument["path"])
            bound.named[number] = tensor
            take(number, recording.storage_of(tensor))
    if differing and made:
        bound.notes.append("ModelNew makes %s in another way than the task; the task's values are used" %
                           ", ".join(differing[:8]))
    by_position(bound, {p: s for p, s in whole.items() if is_free(s)}, wanted, take)
    for path, tensor in own.items():
        storage = recording.storage_of(tensor)
        storage.label = storage.label or path
        storage.is_parameter = storage.is_parameter or isinstance(tensor, torch.nn.Parameter)
    return bound


def by_position(bound: Bound, left: dict[str, Storage], wanted: dict[int, Any], take: Any) -> None:
    """As many parameters as the task has, with other names: they are used in their order."""
    if not left or len(left) != len(wanted):
        return
    pairs = list(zip(list(wanted), left.items(), strict=True))
    bound.notes.append("parameters are used by their position: %s" % ", ".join(
        "%s as the task's %s" % (path, wanted[number]["path"]) for number, (path, _) in pairs)[:400])
    for number, (_, storage) in pairs:
        take(number, storage)


def to_gpu(recording: Recording, model: torch.nn.Module) -> None:
    """As model.cuda() does: parameters and buffers."""
    for tensor in list(model.parameters()) + list(model.buffers()):
        storage = recording.storages.find(tensor)
        if storage is not None:
            storage.device = CUDA
