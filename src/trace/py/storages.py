# The memory of a recorded program: one Storage for each storage of a tensor without data, with its origin and a
# hash of how its contents were made. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

CUDA, HOST, ANY = "cuda", "cpu", "any"  # ANY: made by a helper of PyTorch that names no device

FIRST_ADDRESS, ALIGNMENT = 0x7f2000000000, 2 << 20  # of storages: what data_ptr() says
DTYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)}

TYPES = {name: dtype for dtype, name in DTYPES.items()}


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class Storage:
    """`made`: equal for two storages if the same operations on the same random numbers made their contents."""

    def __init__(self, index: int, size: int, made: str, device: str) -> None:
        self.index, self.bytes, self.made, self.device = index, size, made, device
        self.argument: int | None = None  # the number of the argument that it is
        self.value: Any = None  # of an argument of one element
        self.is_input = False  # an argument that differs from call to call
        self.is_parameter = False  # of the program's module
        self.depends = False  # something that depends on an input was written to it
        self.call = 0  # the call that made it; 0: the construction
        self.label = ""  # for messages
        self.address = 0
        self.writer: tuple[int, int] | None = None  # the stream and its step that wrote it last (streams.py)
        self.readers: dict[int, int] = {}  # by stream: its last step that read it since


class Storages:
    """All storages of a program. They are kept alive, because PyTorch would use the addresses of freed ones again."""

    def __init__(self) -> None:
        self.by_address: dict[int, Storage] = {}
        self.all: list[Storage] = []
        self.alive: list[Any] = []
        self.next_address = FIRST_ADDRESS

    def find(self, tensor: torch.Tensor) -> Storage | None:
        return self.by_address.get(tensor.untyped_storage()._cdata)

    def is_held(self, storage: Storage) -> bool:
        """Whether the program still has a tensor of this memory."""
        return storage.argument is not None or torch._C._storage_Use_Count(self.alive[storage.index]._cdata) > 1

    def add(self, tensor: torch.Tensor, made: str, device: str) -> Storage:
        memory = tensor.untyped_storage()
        storage = Storage(len(self.all), memory.nbytes(), made, device)
        self.by_address[memory._cdata] = storage
        self.alive.append(memory)
        storage.address = self.next_address
        self.next_address += -(-max(storage.bytes, 1) // ALIGNMENT) * ALIGNMENT
        self.all.append(storage)
        return storage


def is_whole(tensor: torch.Tensor, storage: Storage) -> bool:
    """Whether the tensor is its storage, in order."""
    return (tensor.storage_offset() == 0 and tensor.is_contiguous()
            and tensor.numel() * tensor.element_size() == storage.bytes)


def content(tensor: torch.Tensor, storage: Storage) -> str:
    """How the elements of a tensor were made."""
    if is_whole(tensor, storage):
        return storage.made
    return digest(storage.made, str(tensor.dtype), list(tensor.shape), list(tensor.stride()), tensor.storage_offset())


def view_of(tensor: torch.Tensor, storage: Storage) -> dict[str, Any]:
    """The view in a plan's JSON; "at" names the storage."""
    return {"at": [storage.index, tensor.storage_offset() * tensor.element_size()], "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape), "strides": list(tensor.stride())}
