# What programs use of CuPy to launch kernels on PyTorch's tensors: RawKernel, RawModule, streams, and arrays that share
# a tensor's memory. Everything else of CuPy is refused by name.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from refusal import unsupported
from source_kernels import Kernel, SourceKernels, bytes_of_number
from standins import Module, same

VERSION = "13.6.0"
DTYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "dtype")


class Array:
    """cupy.ndarray: a view of a tensor's memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.shape, self.size, self.ndim = tuple(tensor.shape), tensor.numel(), tensor.dim()
        self.nbytes = self.size * tensor.element_size()

    @property
    def data(self) -> Any:
        return Memory(self._tensor.data_ptr())

    @property
    def dtype(self) -> Any:
        import numpy
        return numpy.dtype(str(self._tensor.dtype).removeprefix("torch."))

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(n * self._tensor.element_size() for n in self._tensor.stride())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else unsupported("cupy.ndarray.%s" % name)


class Memory:
    """cupy.cuda.MemoryPointer"""

    def __init__(self, address: int) -> None:
        self.ptr = address


class RawModule:
    kernels: SourceKernels

    def __init__(self, code: str | None = None, path: str | None = None, options: Any = (), backend: str = "nvrtc",
                 translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
                 name_expressions: Any = None, jitify: bool = False) -> None:
        if path is not None or code is None:
            raise unsupported("cupy.RawModule(path=…)")
        if translate_cucomplex:
            raise unsupported("cupy.RawModule(translate_cucomplex=True)")
        self.code, self.options, self.expressions = code, options, name_expressions
        self.cooperative = enable_cooperative_groups

    @functools.cached_property
    def compiled(self) -> list[Kernel]:
        return self.kernels.compile("cupy_kernels", self.code, self.options, self.expressions)

    def compile(self, *_args: Any, **_kwargs: Any) -> None:
        self.compiled  # noqa: B018

    def get_function(self, name: str) -> RawKernel:
        kernel = RawKernel.__new__(RawKernel)
        kernel.module, kernel.name, kernel.max_dynamic_shared_size_bytes = self, str(name), -1
        return kernel

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else unsupported("cupy.RawModule.%s" % name)


class RawKernel:
    def __init__(self, code: str, name: str, options: Any = (), backend: str = "nvrtc",
                 translate_cucomplex: bool = False, *, enable_cooperative_groups: bool = False,
                 jitify: bool = False) -> None:
        self.module = RawModule(code, None, options, backend, translate_cucomplex, enable_cooperative_groups)
        self.name, self.max_dynamic_shared_size_bytes = str(name), -1

    @functools.cached_property
    def kernel(self) -> Kernel:
        module = self.module
        found = module.kernels.named(module.compiled, self.name, self.name in (module.expressions or ()))
        if found is None:
            raise RuntimeError("CUDA_ERROR_NOT_FOUND: named symbol not found: %s (declare it extern \"C\", or use "
                               "name_expressions)" % self.name[:200])
        return found

    def compile(self, *_args: Any, **_kwargs: Any) -> None:
        self.kernel  # noqa: B018

    num_regs = property(lambda self: self.kernel.registers)
    shared_size_bytes = property(lambda self: self.kernel.shared)
    max_threads_per_block = property(lambda self: self.kernel.threads)

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None) -> None:
        kernels = self.module.kernels
        at = kernels.stream_at(stream) or CurrentStream.current
        self.kernel.launch(grid, block, [value_of(a) for a in args], shared_mem, self.max_dynamic_shared_size_bytes, at,
                           cooperative=self.module.cooperative)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else unsupported("cupy.RawKernel.%s" % name)


def value_of(value: Any) -> Any:
    """An argument of a kernel: what CuPy passes for it."""
    if isinstance(value, Array):
        return value._tensor
    if isinstance(value, Memory):
        value = value.ptr
    data = bytes(8) if value is None else bytes_of_number(value)
    if data is None:
        raise TypeError("Unsupported type %s" % type(value))
    return data


class CurrentStream:
    """cupy.cuda.Stream and ExternalStream. CuPy has a current stream of its own: by default, the default stream."""
    kernels: SourceKernels
    current: Any
    null: Any

    def __init__(self, ptr: Any = None, *_args: Any, null: bool = False, **_kwargs: Any) -> None:
        order = self.kernels.recording.order
        if ptr is None and not null:
            raise self.kernels.recording.refuse(unsupported("a stream that CuPy makes"))
        self.stream = order.default if null else self.kernels.stream_at(ptr)
        self.outer: list[Any] = []

    ptr = property(lambda self: self.stream.cuda_stream)

    def use(self) -> CurrentStream:
        CurrentStream.current = self.stream
        return self

    def __enter__(self) -> CurrentStream:
        self.outer.append(CurrentStream.current)
        return self.use()

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None,
                 _trace: TracebackType | None) -> None:
        CurrentStream.current = self.outer.pop()

    def synchronize(self) -> None:
        self.stream.synchronize()


class Device:
    def __init__(self, number: int = 0) -> None:
        self.id = int(number)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_error: Any) -> None:
        return None

    def use(self) -> Device:
        return self

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    @property
    def compute_capability(self) -> str:
        return "%d%d" % torch.cuda.get_device_capability()


def array_of(value: Any, *_args: Any, **_kwargs: Any) -> Array:
    if isinstance(value, Array):
        return value
    if not isinstance(value, torch.Tensor):
        raise unsupported("cupy arrays that are not made of tensors")
    if not value.is_cuda:
        raise unsupported("cupy arrays of tensors that are on the CPU")
    return Array(value)


def accepts_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.from_dlpack and the like, which also take such an array."""
    @functools.wraps(function)
    def call(value: Any, *args: Any, **kwargs: Any) -> Any:
        return value._tensor if isinstance(value, Array) else function(value, *args, **kwargs)
    return call


def modules(kernels: SourceKernels) -> dict[str, Module]:
    """cupy and its submodules, by name."""
    RawModule.kernels = CurrentStream.kernels = kernels
    CurrentStream.current = kernels.recording.order.default
    CurrentStream.null = CurrentStream(null=True)

    cupy, cuda = Module("cupy"), Module("cupy.cuda")
    cuda.__dict__.update({
        "Stream": CurrentStream, "ExternalStream": CurrentStream, "Device": Device,
        "get_current_stream": lambda *_a: CurrentStream(CurrentStream.current),
        "is_available": lambda: True, "runtime": Module("cupy.cuda.runtime")})
    cuda.runtime.__dict__.update({"deviceSynchronize": torch.cuda.synchronize, "getDeviceCount": lambda: 1,
                                  "getDevice": lambda: 0, "setDevice": lambda _d: None})
    arrays = kernels.refusing(array_of)
    cupy.__dict__.update({
        "__version__": VERSION, "cuda": cuda, "RawKernel": kernels.refusing(RawKernel), "RawModule": kernels.refusing(RawModule),
        "ndarray": Array, "asarray": arrays, "from_dlpack": arrays, "fromDlpack": arrays,
        "memoize": lambda **_kwargs: functools.cache, "util": Module("cupy.util"), "fuse": same})
    cupy.util.__dict__["memoize"] = cupy.memoize
    if importlib.util.find_spec("numpy") is not None:
        import numpy
        cupy.__dict__.update({name: getattr(numpy, name) for name in DTYPES})
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = accepts_arrays(torch.from_dlpack)
    return {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.runtime": cuda.runtime, "cupy.util": cupy.util}
