# What programs use of NVIDIA's cuda.core to compile CUDA source and launch kernels on PyTorch's tensors: Device,
# Stream, Program, LaunchConfig and launch. Everything else of it is refused by name.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch

from refusal import unsupported
from source_kernels import Kernel, SourceKernels, bytes_of_number
from standins import Module

Capability = namedtuple("Capability", ("major", "minor"))
# The options of ProgramOptions that change the code, as nvcc's.
FLAGS: dict[str, Callable[[Any], list[str]]] = {
    "std": lambda v: ["-std=%s" % v], "use_fast_math": lambda v: ["--use_fast_math"] if v else [],
    "fma": lambda v: ["--fmad=%s" % ("true" if v else "false")],
    "ftz": lambda v: ["--ftz=%s" % ("true" if v else "false")],
    "prec_div": lambda v: ["--prec-div=%s" % ("true" if v else "false")],
    "prec_sqrt": lambda v: ["--prec-sqrt=%s" % ("true" if v else "false")],
    "max_register_count": lambda v: ["--maxrregcount=%d" % v],
    "define_macro": lambda v: ["-D%s" % macro for macro in macros(v)]}
SILENT = ("arch", "name", "debug", "lineinfo", "device_as_default_execution_space", "include_path", "no_cache",
          "extensible_whole_program", "relocatable_device_code", "split_compile")


def macros(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return ["%s=%s" % value]
    return [macro for item in value for macro in macros(item)]


class ProgramOptions:
    def __init__(self, **options: Any) -> None:
        self.flags: list[str] = []
        for name, value in options.items():
            if name in FLAGS and value is not None:
                self.flags += FLAGS[name](value)
            elif name not in FLAGS and name not in SILENT:
                raise unsupported("cuda.core.ProgramOptions(%s=…)" % name)


class Program:
    kernels: SourceKernels

    def __init__(self, code: str, code_type: str = "c++", options: ProgramOptions | None = None) -> None:
        if code_type.lower() != "c++":
            raise unsupported("cuda.core.Program of %s" % code_type)
        self.code, self.options = code, options or ProgramOptions()

    def compile(self, _target_type: str = "cubin", name_expressions: Any = (), **_kwargs: Any) -> ObjectCode:
        instances = [n.decode() if isinstance(n, bytes) else str(n) for n in name_expressions or ()]
        templates = [name for name in instances if "<" in name]
        compiled = self.kernels.compile("cuda_core", self.code, self.options.flags, templates)
        return ObjectCode(self.kernels, compiled, instances)

    def close(self) -> None:
        return None


class ObjectCode:
    def __init__(self, kernels: SourceKernels, compiled: list[Kernel], instances: list[str]) -> None:
        self.kernels, self.compiled, self.instances = kernels, compiled, instances

    def get_kernel(self, name: Any) -> Kernel:
        name = name.decode() if isinstance(name, bytes) else str(name)
        found = self.kernels.named(self.compiled, name, name in self.instances)
        if found is None:
            raise RuntimeError("CUDA_ERROR_NOT_FOUND: named symbol not found: %s" % name[:200])
        return found


class LaunchConfig:
    def __init__(self, grid: Any = 1, block: Any = 1, shmem_size: int | None = None, cluster: Any = None,
                 cooperative_launch: bool = False, **other: Any) -> None:
        if other:
            raise unsupported("cuda.core.LaunchConfig(%s=…)" % next(iter(other)))
        self.grid, self.block, self.cluster = grid, block, cluster
        self.shmem_size, self.cooperative_launch = int(shmem_size or 0), bool(cooperative_launch)


class CoreStream:
    """A stream that was made of PyTorch's."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    handle = property(lambda self: self.stream.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)

    def sync(self) -> None:
        self.stream.synchronize()

    def close(self) -> None:
        return None


class Device:
    kernels: SourceKernels

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = int(device_id or 0)

    def set_current(self, *_args: Any) -> None:
        return None

    def sync(self) -> None:
        torch.cuda.synchronize()

    name = property(lambda self: torch.cuda.get_device_name())
    arch = property(lambda self: "%d%d" % torch.cuda.get_device_capability())
    compute_capability = property(lambda self: Capability(*torch.cuda.get_device_capability()))
    default_stream = property(lambda self: CoreStream(self.kernels.recording.order.default))

    def create_stream(self, obj: Any = None, **_options: Any) -> CoreStream:
        if obj is None:
            raise unsupported("a stream that cuda.core makes")
        handle = obj.__cuda_stream__() if hasattr(obj, "__cuda_stream__") else (0, obj)
        handle = handle() if callable(handle) else handle
        return CoreStream(self.kernels.stream_at(handle[1]))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else unsupported("cuda.core.Device.%s" % name)


def value_of(value: Any) -> Any:
    data = bytes(8) if value is None else bytes_of_number(value)
    if data is None:
        raise TypeError("the argument is of unsupported type: %s" % type(value))
    return data


def launch(stream: Any, config: LaunchConfig, kernel: Kernel, *args: Any) -> None:
    kernels = kernel.kernels
    handle = stream.__cuda_stream__()[1] if hasattr(stream, "__cuda_stream__") else stream
    kernel.launch(config.grid, config.block, [value_of(a) for a in args], config.shmem_size, -1,
                  kernels.stream_at(handle), config.cluster or (1, 1, 1), config.cooperative_launch)


def modules(kernels: SourceKernels) -> dict[str, Module]:
    """cuda and its submodules, by name."""
    Program.kernels = Device.kernels = kernels

    values = {"Device": kernels.refusing(Device), "Stream": CoreStream, "Program": kernels.refusing(Program),
              "ProgramOptions": kernels.refusing(ProgramOptions), "LaunchConfig": kernels.refusing(LaunchConfig), "launch": launch,
              "ObjectCode": ObjectCode, "Kernel": Kernel}
    core, experimental, package = Module("cuda.core"), Module("cuda.core.experimental"), Module("cuda")
    for module in (core, experimental):
        module.__dict__.update(values)
    core.__dict__["experimental"] = experimental
    package.__dict__["core"] = core
    return {"cuda": package, "cuda.core": core, "cuda.core.experimental": experimental}
