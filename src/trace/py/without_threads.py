# Lets a library that starts a thread and waits for it at once run the thread's function in the calling thread instead.
# Triton 3.3 and 3.4 run every pass of their compiler like this, to survive a crash; the lock allows no threads.
# The library's own pointers to pthread_create and pthread_join are replaced (its global offset table), no other's.
# Functions for C need executable pages, which the lock forbids. So they are made before it, if this Triton is installed.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import ctypes
import mmap
import struct
from collections.abc import Iterator
from importlib import metadata
from typing import Any

TRITON = ("3.3.", "3.4.")
Create = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p,
                          ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p), ctypes.c_void_p)
Join = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
# Elf64: segment and dynamic types, sizes of a program header, a relocation and a symbol.
PT_DYNAMIC, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_JMPREL = 2, 2, 5, 6, 7, 8, 23
HEADER, RELOCATION, SYMBOL = 56, 24, 24
results: dict[int, int | None] = {}  # of finished functions, by the number that stands for their thread
functions: dict[str, Any] = {}  # for C, by the names that they replace


class Information(ctypes.Structure):  # Dl_info
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p))


def create(thread: Any, _attributes: Any, function: Any, argument: Any) -> int:
    thread[0] = len(results) + 1
    results[thread[0]] = function(argument)
    return 0


def join(thread: int, result: Any) -> int:
    value = results.pop(thread, None)
    if result:
        result[0] = value
    return 0


def prepare() -> None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        if metadata.version("triton").startswith(TRITON):
            functions.update(pthread_create=Create(create), pthread_join=Join(join))


def base_of(library: ctypes.CDLL, symbol: str) -> int:
    found = Information()
    ctypes.CDLL(None).dladdr(ctypes.cast(getattr(library, symbol), ctypes.c_void_p), ctypes.byref(found))
    return found.base or 0


def dynamic_of(base: int) -> dict[int, int]:
    """The dynamic section of a loaded library, with addresses as the loader has relocated them."""
    at, count = struct.unpack_from("<Q", ctypes.string_at(base + 32, 8))[0], ctypes.c_uint16.from_address(base + 56).value
    entries: dict[int, int] = {}
    for i in range(count):
        header = ctypes.string_at(base + at + i * HEADER, HEADER)
        if struct.unpack_from("<I", header)[0] != PT_DYNAMIC:
            continue
        offset, size = struct.unpack_from("<Q", header, 16)[0], struct.unpack_from("<Q", header, 40)[0]
        for tag, value in struct.iter_unpack("<QQ", ctypes.string_at(base + offset, size)):
            entries.setdefault(tag, value)
    return entries


def slots(base: int, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The names and addresses of a library's pointers to functions of other libraries."""
    dynamic = dynamic_of(base)
    for table, size in ((DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)):
        relocations = ctypes.string_at(dynamic[table], dynamic[size]) if table in dynamic else b""
        for offset, info, _ in struct.iter_unpack("<QQq", relocations):
            if info >> 32 == 0:
                continue
            symbol = ctypes.c_uint32.from_address(dynamic[DT_SYMTAB] + (info >> 32) * SYMBOL).value
            name = ctypes.string_at(dynamic[DT_STRTAB] + symbol).decode("ascii", "replace")
            if name in names:
                yield name, base + offset


def replace(file: str, symbol: str) -> None:
    """In the loaded library `file`, which has the function `symbol`."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for name, slot in slots(base_of(ctypes.CDLL(file), symbol), tuple(functions)):
        page = slot // mmap.PAGESIZE * mmap.PAGESIZE
        if protect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        ctypes.c_void_p.from_address(slot).value = ctypes.cast(functions[name], ctypes.c_void_p).value
