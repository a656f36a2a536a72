# Launches of kernels that a program compiles itself, with Triton or from CUDA source, and the bytes of their
# parameters. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recording import Node, Recording
from storages import Storage, digest


@dataclass
class Launch:
    """What a kernel is launched with. Sizes are in blocks and threads, shared memory is in bytes."""
    image: int
    kernel: str
    grid: list[int]
    block: list[int]
    cluster: list[int]
    shared: int
    parameters: list[dict[str, Any]]  # of raw() and pointer()
    shared_limit: int | None = None  # of dynamic shared memory; None: all that the device has
    cooperative: bool = False
    early: bool = False  # before the previous launch has ended


def raw(data: bytes) -> dict[str, Any]:
    return {"bytes": base64.b64encode(data).decode()}


def pointer(at: list[int] | None) -> dict[str, Any]:
    return raw(bytes(8)) if at is None else {"at": at}


def packed(form: str, value: float) -> bytes:
    """A number in the form of `struct`. Too large numbers become infinite, as in C."""
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, float("inf") if value > 0 else float("-inf"))


def storages_of(recording: Recording, launch: Launch) -> dict[int, Storage]:
    """The storages that parameters point to, by the number of the parameter."""
    return {i: recording.storages.all[p["at"][0]] for i, p in enumerate(launch.parameters) if "at" in p}


def append(recording: Recording, launch: Launch, code: str, written: Callable[[frozenset[int]], set[int]]) -> None:
    """Adds a launch. `code`: a hash of what the kernel computes; `written`: tells through which of the parameters with
    these numbers, which are pointers, it may write."""
    storages = storages_of(recording, launch)
    targets = [storages[i] for i in sorted(written(frozenset(storages)))]
    made = digest(code, launch.grid, launch.block, launch.cluster, launch.shared, [s.made for s in storages.values()],
                  [p["bytes"] if "bytes" in p else [p["at"][1], p.get("tensor_map")] for p in launch.parameters])
    recording.append(Node("launch", dict(vars(launch)), list(storages.values()), targets))
    for i, storage in enumerate(targets):
        storage.made = digest(made, i)
