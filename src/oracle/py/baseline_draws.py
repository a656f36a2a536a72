# The inputs of baselines, drawn as for cases.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import torch

from draw_base import Draw
from loaded_task import Task
from oracle_types import Json
from tensor_values import leaves, storage_bytes

MEMORY_SHARE = 4  # drawn inputs may use a quarter of the free memory


class Draws:
    """Caches the inputs of one setting: its baselines use the same ones, and drawing large inputs takes
    seconds. Does not cache KernelBench problems, because their modules are moved to the GPU."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.task = self.setting = None
        self.drawn, self.bytes = {}, 0  # by seed

    def of(self, task: Task, init: Json, inputs: Json, seed: int) -> Draw:
        if (self.task, self.setting) != (task, (init, inputs)):
            self.forget()
            self.task, self.setting = task, (init, inputs)
        if seed not in self.drawn:
            draw = task.draw(seed, init, inputs, answer=False)
            if task.is_problem or not self.has_room(draw):
                return draw
            self.drawn[seed] = draw
        return self.drawn[seed]

    def has_room(self, draw: Draw) -> bool:
        held = leaves((draw.args, getattr(draw, "inputs", ()), getattr(draw, "grads", ())))
        tensors = {t.data_ptr(): t for t in held if isinstance(t, torch.Tensor)}
        size = sum(storage_bytes(t) for t in tensors.values())
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if (self.bytes + size) * MEMORY_SHARE > self.bytes + free:
            return False
        self.bytes += size
        return True
