# Records kernels of Triton with the program's own Triton, which needs no GPU for this: it binds arguments, chooses
# specialisations and compiles kernels to PTX in this process. This file is what Triton sees instead of a driver and of
# its compiler's last stage: cupel assembles the PTX. Triton 3.0 to 3.9 work this way.
# Imported when a program uses Triton. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton._C.libtriton
import triton.compiler
import triton.runtime.autotuner
import triton.runtime.jit
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import OutOfResources

import without_threads
from extensions import Ask
from launches import Launch, append, packed, pointer, raw
from ptx_writes import written_parameters
from recording import Recording
from refusal import Refusal, unsupported
from storages import HOST, digest

AssemblerError = getattr(triton.runtime.autotuner, "PTXASError", RuntimeError)
TESTED = tuple((3, minor) for minor in range(10))
IN_POOLS = ((3, 0), (3, 1))  # these compile in pools of threads
PTX_VERSION = 86  # of CUDA 12.8; the first with all that Triton uses on compute capability 10.0
MOST_HIDDEN = 2  # parameters that Triton adds to kernels: pointers to global and to profiling scratch memory
INTEGERS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "u8": 1, "u16": 2, "u32": 4, "u64": 8}
FLOATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d", "bf16": "<f"}
# As cupel names CUtensorMapDataType and CUtensorMapSwizzle.
MAP_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
             "float32_ftz", "tfloat32", "tfloat32_ftz")
SWIZZLES = ("none", "32b", "64b", "128b")
TF32 = 11


def call(function: Callable[..., Any], **available: Any) -> Any:
    """Calls a function of Triton with those arguments that this version of Triton has."""
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in available.items() if name in names})


def can_start_threads() -> bool:
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


class Properties(dict):  # type: ignore[type-arg]
    def __missing__(self, key: str) -> Any:
        raise unsupported("the property %s of the device in triton.runtime.driver" % key)


class Driver:
    """triton.runtime.driver.active"""

    def __init__(self, device: dict[str, Any]) -> None:
        properties = Properties(
            max_shared_mem=device["shared_per_block_optin"], max_num_regs=device["registers_per_sm"],
            multiprocessor_count=device["sm_count"], warpSize=32)
        self.target = GPUTarget("cuda", device["major"] * 10 + device["minor"], 32)
        self.utils = types.SimpleNamespace(get_device_properties=lambda _device: properties)
        self.get_current_target = lambda: self.target
        self.get_device_capability = lambda *_device: (device["major"], device["minor"])
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda *_device: 0
        self.set_current_device = lambda _device: None
        self.get_active_torch_device = lambda: torch.device("cuda", 0)
        self.get_device_interface = lambda: torch.cuda
        self.get_benchmarker = lambda: refused("triton.testing.do_bench")
        self.is_active = lambda: True

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else unsupported("triton.runtime.driver.active.%s" % name)


def refused(name: str) -> Callable[..., Any]:
    def function(*_args: Any, **_kwargs: Any) -> Any:
        raise unsupported(name)
    return function


class Kernel:
    """A compiled kernel, as triton.compile returns it."""

    def __init__(self, kernels: Kernels, source: Any, metadata: dict[str, Any], ptx: str) -> None:
        self.kernels, self.src, self.asm, self.name = kernels, source, {"ptx": ptx}, metadata["name"]
        self.metadata = types.SimpleNamespace(**metadata)
        self.function = self.packed_metadata = self.module = None
        self.hash = digest(ptx)
        entry = ptx.split(".entry " + self.name, 1)[1]
        self.parameters = entry[:entry.index(")")].count(".param")
        self.written = functools.cache(functools.partial(written_parameters, ptx, self.name))

    @functools.cached_property
    def built(self) -> dict[str, Any]:
        answer = self.kernels.ask({"ask": "ptx", "name": self.name, "ptx": self.asm["ptx"],
                                   "fused": bool(self.metadata.enable_fp_fusion)})
        if "failed" in answer:
            raise AssemblerError(answer["failed"]["message"])
        return answer

    n_regs = property(lambda self: self.built["registers"])
    n_spills = property(lambda self: self.built["spills"])
    n_max_threads = property(lambda self: self.built["threads"])

    def _init_handles(self) -> None:
        """Raises Triton's own error if the kernel needs too much of the device."""
        most = self.kernels.driver.utils.get_device_properties(0)["max_shared_mem"]
        if self.metadata.shared > most:
            raise OutOfResources(self.metadata.shared, most, "shared memory")
        if (getattr(self.metadata, "tmem_size", None) or 0) > 512:
            raise OutOfResources(self.metadata.tmem_size, 512, "tensor memory")
        self.built  # noqa: B018

    def launch_metadata(self, *_args: Any) -> None:
        return None

    def run(self, x: int, y: int, z: int, _stream: Any, _function: Any, _packed: Any, _metadata: Any, _enter: Any,
            _exit: Any, *args: Any) -> None:
        self._init_handles()
        self.kernels.launch(self, [x, y, z], args)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, stream: Any = None) -> None:
            self._init_handles()
            self.kernels.launch(self, [*grid, 1, 1][:3], args)
        return launch


class Kernels:
    def __init__(self, recording: Recording, ask: Ask, device: dict[str, Any], wanted: Any) -> None:
        """wanted: the search of an autotuner, counted from 0, and the configuration that it is to choose, or None."""
        self.recording, self.ask, self.wanted = recording, ask, wanted
        self.driver = Driver(device)
        self.arguments: Any = None  # of the search that is running

    def install(self) -> None:
        version = tuple(int(part) for part in triton.__version__.split(".")[:2])
        if version not in TESTED:
            raise unsupported("Triton %s" % triton.__version__)
        if version in IN_POOLS and not can_start_threads():
            raise unsupported("Triton %s: it compiles in threads, which cupel does not allow to programs (3.2 to 3.9 "
                              "work)" % triton.__version__)
        if triton.__version__.startswith(without_threads.TRITON):
            without_threads.replace(triton._C.libtriton.__file__, "PyInit_libtriton")
        triton.runtime.driver.set_active(self.driver)
        for module in (triton, triton.compiler, triton.compiler.compiler):
            module.compile = self.compile
        tuner = triton.runtime.autotuner.Autotuner
        tuner._bench = lambda *args, **kwargs: self.time_of(*args, **kwargs)
        if hasattr(tuner, "check_disk_cache"):
            tuner.check_disk_cache = lambda _tuner, _key, _configs, bench: bench()
        for name in ("do_bench", "do_bench_cudagraph", "nvsmi", "get_dram_gbps", "get_max_tensorcore_tflops",
                     "get_max_simd_tflops"):
            setattr(triton.testing, name, refused("triton.testing.%s" % name))

    # ---- compiling ----

    def compile(self, src: Any, target: Any = None, options: Any = None, **_kwargs: Any) -> Kernel:
        """triton.compile, up to PTX: without ptxas, files and threads."""
        from triton._C.libtriton import ir
        if isinstance(src, str):
            raise self.refuse(unsupported("triton.compile of a file"))
        backend = triton.compiler.make_backend(target or self.driver.target)
        options = backend.parse_options(dict(options or {}, ptx_version=PTX_VERSION, **src.parse_options()))
        if getattr(options, "ir_override", None):
            raise self.refuse(unsupported("Triton's ir_override"))
        context = ir.context()
        if hasattr(context, "disable_multithreading"):
            context.disable_multithreading()
        ir.load_dialects(context)
        backend.load_dialects(context)
        stages: dict[str, Any] = {}
        call(backend.add_stages, stages=stages, options=options, language=getattr(src, "language", None))
        module = call(src.make_ir, target=backend.target, options=options, context=context,
                      codegen_fns=call(backend.get_codegen_implementation, options=options),
                      module_map=backend.get_module_map() if hasattr(backend, "get_module_map") else None)
        metadata = dict(options.__dict__, target=backend.target)
        for name in list(stages)[list(stages).index(src.ext):]:
            if name == backend.binary_ext:
                break
            module = stages[name](module, metadata)
        return Kernel(self, src, metadata, module)

    def time_of(self, tuner: Any, /, *args: Any, config: Any, **kwargs: Any) -> list[float]:
        """Autotuner._bench, which returns times: the wanted configuration, or the first that fits, is the fastest."""
        searches = self.recording.searches
        if tuner.nargs is not self.arguments or not searches:
            self.arguments = tuner.nargs
            searches.append({"kernel": tuner.base_fn.__name__, "configurations": [], "chosen": -1})
        search = searches[-1]
        index = len(search["configurations"])
        search["configurations"].append(str(config)[:200])
        wanted = self.wanted[1] if self.wanted and self.wanted[0] == len(searches) - 1 else None
        if search["chosen"] >= 0 or wanted not in (None, index):
            return [1.0, 1.0, 1.0]
        if not self.fits(tuner, args, dict(kwargs, **config.all_kwargs())):
            if wanted == index:
                raise self.recording.refuse(Refusal("no_configuration", "%s of %s does not fit" % (
                    config, search["kernel"])))
            return [float("inf")] * 3
        search["chosen"] = index
        if wanted is None:
            self.recording.note("of the configurations of %s, the first that fits was recorded: %s" % (
                search["kernel"], config))
        return [0.0, 0.0, 0.0]

    def fits(self, tuner: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        from triton.compiler.errors import CompileTimeAssertionFailure
        try:
            tuner.fn.run(*args, **dict(kwargs, warmup=True))._init_handles()
        except (OutOfResources, AssemblerError, CompileTimeAssertionFailure):
            return False
        return True

    # ---- launching ----

    def launch(self, kernel: Kernel, grid: list[int], args: Any) -> None:
        recording, metadata = self.recording, kernel.metadata
        parameters = list(self.parameters(kernel, args))
        hidden = kernel.parameters - len(parameters)
        if not 0 <= hidden <= MOST_HIDDEN:
            raise self.refuse(unsupported("the parameters of kernel %s of Triton %s" % (
                kernel.name, triton.__version__)))
        cluster = list(getattr(metadata, "cluster_dims", (metadata.num_ctas, 1, 1)))
        blocks = [size * count for size, count in zip(grid, cluster, strict=True)]
        if blocks[0] * blocks[1] * blocks[2] == 0:
            return
        for i in range(hidden):
            parameters.append(self.scratch(kernel, blocks) if i == 0 else pointer(None))
        launch = Launch(kernel.built["image"], kernel.name, blocks, [32 * metadata.num_warps, 1, 1], cluster,
                        metadata.shared, parameters,
                        cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
                        early=bool(getattr(metadata, "launch_pdl", False)))
        append(recording, launch, kernel.hash, kernel.written)

    def parameters(self, kernel: Kernel, args: Any) -> Iterator[dict[str, Any]]:
        source, maps = kernel.src, list(getattr(kernel.metadata, "tensordesc_meta", None) or [])
        constants = source.constants or {}
        for (name, kind), value in zip(source.signature.items(), args, strict=True):
            # Triton before 3.3 lists arguments that are constants, such as those that are 1.
            if name not in constants and (source.fn.arg_names.index(name),) not in constants:
                yield from self.leaves(kind, value, maps)

    def leaves(self, kind: Any, value: Any, maps: list[Any]) -> Iterator[dict[str, Any]]:
        if isinstance(kind, tuple):
            for inner, item in zip(kind, value, strict=True):
                yield from self.leaves(inner, item, maps)
        elif kind.startswith("tensordesc"):
            yield from self.described(value, maps)
        elif kind.startswith("*"):
            yield self.pointer(value)
        elif kind in INTEGERS:
            size = INTEGERS[kind]
            yield raw((int(value) % (1 << 8 * size)).to_bytes(size, "little"))
        elif kind in FLOATS:
            data = packed(FLOATS[kind], float(value))
            yield raw(data[2:] if kind == "bf16" else data)
        elif kind != "constexpr":
            raise self.refuse(unsupported("an argument of Triton's type %s" % kind))

    def pointer(self, value: Any) -> dict[str, Any]:
        value = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value  # triton.reinterpret
        if value is None:
            return pointer(None)
        if not isinstance(value, torch.Tensor):
            raise self.refuse(unsupported("a pointer argument of type %s" % type(value).__name__))
        storage = self.recording.storages.find(value)
        if storage is None or storage.device == HOST:
            raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
        return pointer(self.recording.view(value)["at"])

    def described(self, value: Any, maps: list[Any]) -> Iterator[dict[str, Any]]:
        """A tensor descriptor of the host: a tensor map, sizes and strides."""
        from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST
        known = maps.pop(0) if maps else None
        if known is None or known.get("is_im2col"):
            raise self.refuse(unsupported("a tensor descriptor that is not a tiled tensor map"))
        shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
        kind = TMA_DTYPE_DEVICE_TO_HOST[known["elem_type"]]
        dims = shape[:-1] + [shape[-1] * (2 if known["fp4_padded"] else 1)]
        fields = {"type": MAP_TYPES[TF32 if getattr(value, "round_f32_to_tf32", False) else kind], "dims": dims[::-1],
                  "strides": [n * known["elem_size"] for n in strides[-2::-1]],
                  "box": [int(n) for n in known["block_size"]][::-1], "element_strides": [1] * len(shape),
                  "interleave": "none", "swizzle": SWIZZLES[known["swizzle"]], "l2_promotion": "128b",
                  "fill": "nan" if getattr(value, "padding", "zero") == "nan" else "zero"}
        yield dict(self.pointer(value.base), tensor_map=fields)
        for size in shape:
            yield raw(size.to_bytes(4, "little"))
        for stride in strides:
            yield raw(stride.to_bytes(8, "little"))

    def scratch(self, kernel: Kernel, blocks: list[int]) -> dict[str, Any]:
        """The kernel's global scratch memory, which the program's allocator allocates."""
        metadata = kernel.metadata
        if getattr(metadata, "profile_scratch_size", 0):
            raise self.refuse(unsupported("profiling in Triton kernels"))
        size = getattr(metadata, "global_scratch_size", 0)
        if not size:
            return pointer(None)
        from triton.runtime import _allocation
        allocator = _allocation._allocator
        allocator = allocator.get() if hasattr(allocator, "get") else allocator
        return self.pointer(allocator(blocks[0] * blocks[1] * blocks[2] * size, metadata.global_scratch_align, 0))

    def refuse(self, refusal: Refusal) -> Refusal:
        return self.recording.refuse(refusal)
