# Kernels that a program compiles from CUDA source while it runs, as NVRTC does: cupel compiles them, and this file
# launches them. cupy_standin.py, cuda_core_standin.py and torch.cuda._compile_kernel use it.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bisect
import ctypes
import functools
import inspect
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.cuda._utils

from extensions import Ask
from launches import Launch, append, pointer, raw
from ptx_writes import written_parameters
from recording import Recording
from refusal import Refusal, unsupported
from storages import FIRST_ADDRESS, HOST, digest
from streams import Stream

ADDRESS_BYTES = 8
# How torch.cuda._compile_kernel passes a float, which depends on PyTorch's version.
REAL = "<f" if "c_float(arg)" in inspect.getsource(torch.cuda._utils) else "<d"
DEFAULT_STREAMS = (None, 0, 1, 2)  # null, legacy, per thread


class CompileError(RuntimeError):
    """Source that does not compile. Programs may go on without it."""

    def __init__(self, refusal: dict[str, Any]) -> None:
        super().__init__(refusal["message"])
        self.refusal = refusal


def bare(name: str) -> str:
    """A C++ function's name without the type of its result, its parameters and its spaces: "scale<float,3>"."""
    depth, end = 0, len(name)
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0 and i > 0:
            end = i
            break
    name = name[:end].removeprefix("void ")
    return re.sub(r"\s+", "", name)


class Kernel:
    """A kernel of a compiled source."""

    def __init__(self, kernels: SourceKernels, image: int, ptx: str, known: dict[str, Any]) -> None:
        self.kernels, self.image, self.name, self.signature = kernels, image, known["name"], known["signature"]
        self.parameters: list[int] = known["parameters"]  # bytes of each
        self.registers, self.shared, self.threads = known["registers"], known["shared"], known["threads"]
        self.hash = digest(ptx, self.name)
        self.written = functools.cache(functools.partial(written_parameters, ptx, self.name))

    def launch(self, grid: Any, block: Any, values: Iterable[Any], shared: int = 0, limit: int = -1,
               stream: Stream | None = None, cluster: Any = (1, 1, 1), cooperative: bool = False) -> None:
        """`values`: for each parameter its bytes, a tensor or an address. `limit`: of dynamic shared memory, if the
        program has set one."""
        self.kernels.launch(self, grid, block, list(values), int(shared), int(limit), stream, cluster, cooperative)


class SourceKernels:
    def __init__(self, recording: Recording, ask: Ask) -> None:
        self.recording, self.ask = recording, ask

    def compile(self, name: str, source: str, flags: Iterable[Any] = (), instances: Iterable[Any] = (),
                language: str = "cuda") -> list[Kernel]:
        """All kernels of CUDA source, or of PTX. `instances`: of kernel templates, as in "scale<float>"."""
        answer = self.ask({"ask": "source", "name": str(name), "language": language, "source": str(source),
                           "flags": [str(f) for f in flags or ()], "instances": [str(n) for n in instances or ()]})
        if "failed" in answer:
            self.recording.note("kernels of %s do not compile: %s" % (str(name)[:80],
                                                                      answer["failed"]["message"][:300]))
            raise CompileError(answer["failed"])
        return [Kernel(self, answer["image"], answer["ptx"], kernel) for kernel in answer["kernels"]]

    def named(self, kernels: list[Kernel], name: str, is_expression: bool) -> Kernel | None:
        """The kernel with the name that its code has. `is_expression`: as C++ source names it, as in "scale<float>"."""
        for kernel in kernels:
            if kernel.name == name or is_expression and bare(kernel.signature) == bare(str(name)):
                return kernel
        return None

    def launch(self, kernel: Kernel, grid: Any, block: Any, values: list[Any], shared: int, limit: int,
               stream: Stream | None, cluster: Any, cooperative: bool) -> None:
        if len(values) != len(kernel.parameters):
            raise self.wrong("%s has %d parameters, and the program passes %d" % (
                kernel.name, len(kernel.parameters), len(values)))
        parameters = [self.parameter(kernel, i, v) for i, v in enumerate(values)]
        launch = Launch(kernel.image, kernel.name, dim3(grid), dim3(block), dim3(cluster), shared, parameters, limit,
                        cooperative)
        with self.recording.order.entered(stream):
            append(self.recording, launch, kernel.hash, kernel.written)

    def parameter(self, kernel: Kernel, number: int, value: Any) -> dict[str, Any]:
        size = kernel.parameters[number]
        where = "parameter %d of %s" % (number, kernel.name)
        if isinstance(value, torch.Tensor):
            value = struct.pack("<Q", value.data_ptr())
        if len(value) < size:
            raise self.wrong("%s has %d bytes, and the program passes %d" % (where, size, len(value)))
        at = self.place_of(value)
        if at is None and self.contains_address(value[:size]):
            raise self.recording.refuse(unsupported("a structure that contains addresses (%s)" % where))
        if at is None:
            return raw(value[:size])
        if size != ADDRESS_BYTES:
            raise self.wrong("%s has %d bytes, and the program passes an address" % (where, size))
        storage = self.recording.storages.all[at[0]]
        if not self.recording.storages.is_held(storage):
            raise self.recording.refuse(Refusal("freed_memory", "%s is the address of a tensor that the program no "
                                                "longer has" % where))
        if storage.device == HOST:
            raise self.wrong("%s is the address of a tensor that is on the CPU" % where)
        return pointer(at)

    def place_of(self, value: bytes) -> list[int] | None:
        """The storage and the offset of an address that data_ptr() gave."""
        if len(value) != ADDRESS_BYTES:
            return None
        address, storages = struct.unpack("<Q", value)[0], self.recording.storages
        if not FIRST_ADDRESS <= address < storages.next_address:
            return None
        index = bisect.bisect_right(storages.all, address, key=lambda storage: storage.address) - 1
        return [index, address - storages.all[index].address]

    def contains_address(self, data: bytes) -> bool:
        return any(self.place_of(data[i:i + ADDRESS_BYTES]) is not None for i in range(0, len(data) - 7, ADDRESS_BYTES))

    def refusing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose refusals count whatever the program does with them."""
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Refusal as refusal:
                raise self.recording.refuse(refusal) from None
        return call

    def wrong(self, message: str) -> Refusal:
        return self.recording.refuse(Refusal("wrong_arguments", message))

    def stream_at(self, handle: Any) -> Stream | None:
        """The stream that a number stands for: what torch.cuda.Stream.cuda_stream says. None: the current one."""
        if handle is None:
            return None
        handle = getattr(handle, "cuda_stream", handle)
        handle = getattr(handle, "value", handle)  # of ctypes
        if handle in DEFAULT_STREAMS:
            return self.recording.order.default
        if handle not in self.recording.order.handles:
            raise self.recording.refuse(unsupported("a stream that PyTorch did not make"))
        return self.recording.order.handles[handle]


def dim3(sizes: Any) -> list[int]:
    listed = [int(sizes)] if hasattr(sizes, "__index__") else [int(n) for n in sizes]
    return (listed + [1, 1, 1])[:3]


def bytes_of_number(value: Any, integer: str = "<q", real: str = "<d") -> bytes | None:
    """A Python or NumPy number as bytes. `integer`, `real`: how Python's own are passed."""
    if isinstance(value, bool):
        return struct.pack("<?", value)
    if isinstance(value, int):
        size = struct.calcsize(integer)
        return (value % (1 << 8 * size)).to_bytes(size, "little")
    if isinstance(value, float):
        return struct.pack(real, value)
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value)
    if hasattr(value, "tobytes") and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return bytes(value.tobytes())
    return None


class TorchKernel:
    """What torch.cuda._compile_kernel returns."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.limit = kernel, 0

    def __call__(self, grid: Any = (1, 1, 1), block: Any = (1, 1, 1), args: Any = None, shared_mem: int = 0,
                 stream: Any = None) -> None:
        values = []
        for arg in args or ():
            value = arg if isinstance(arg, torch.Tensor) else bytes_of_number(arg, "<i", REAL)
            if value is None or not isinstance(arg, (torch.Tensor, int, float)):
                raise TypeError("Unsupported argument type: %s" % type(arg))
            values.append(value)
        self.kernel.launch(grid, block, values, shared_mem, self.limit,
                           self.kernel.kernels.stream_at(stream))

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        self.limit = int(shared_mem_bytes)


def compile_kernel(kernels: SourceKernels, kernel_source: str, kernel_name: str, _compute_capability: Any = None,
                   _cuda_include_dirs: Any = None, nvcc_options: Any = None, **_kwargs: Any) -> TorchKernel:
    """torch.cuda._compile_kernel"""
    is_template = "<" in kernel_name
    compiled = kernels.compile(bare(kernel_name), kernel_source, nvcc_options, [kernel_name] if is_template else ())
    found = kernels.named(compiled, kernel_name, True)
    if found is None:
        raise RuntimeError("CUDA error: NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID: %s" % kernel_name[:200])
    return TorchKernel(found)
