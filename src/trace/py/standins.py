# Stand-ins for the parts of PyTorch that need a GPU or a compiler: extensions, torch.compile, streams, events and
# what programs ask about the device. A part without a stand-in is refused by name.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.cpp_extension

from extensions import Extensions
from recording import Node, Recording
from refusal import unsupported
from storages import digest
from streams import Event, Stream


class Properties(types.SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        raise unsupported("torch.cuda.get_device_properties().%s" % name)


class Module(types.ModuleType):
    """A module that names what it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise unsupported("%s.%s" % (self.__name__, name))


@contextlib.contextmanager
def entered(*_args: Any, **_kwargs: Any) -> Iterator[None]:
    yield


def properties_of(device: dict[str, Any]) -> Properties:
    return Properties(name=device["name"], major=device["major"], minor=device["minor"],
                      total_memory=device["global_memory_bytes"], multi_processor_count=device["sm_count"],
                      max_threads_per_multi_processor=device["max_threads_per_sm"], warp_size=32,
                      regs_per_multiprocessor=device["registers_per_sm"], L2_cache_size=device["l2_bytes"],
                      shared_memory_per_block=device["shared_per_block"],
                      shared_memory_per_block_optin=device["shared_per_block_optin"],
                      shared_memory_per_multiprocessor=device["shared_per_sm"], is_integrated=False,
                      is_multi_gpu_board=False, gcnArchName="")


def same(function: Any = None, *_args: Any, **_kwargs: Any) -> Any:
    """torch.compile and the like: the function itself, also as a decorator with arguments."""
    return (lambda f: f) if function is None else function


class Inlined:
    """What torch.library.custom_op and triton_op make of a function: the function, which is recorded when it runs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

    def register_fake(self, *_args: Any, **_kwargs: Any) -> Any:
        return same(*[f for f in _args if callable(f)])

    register_autograd = register_kernel = register_vmap = register_torch_dispatch = register_fake


def inlined(_name: str, function: Any = None, /, **_kwargs: Any) -> Any:
    return Inlined if function is None else Inlined(function)


def registered(_operator: Any, function: Any = None, /, **_kwargs: Any) -> Any:
    return same(function)


class Graph:
    """A CUDA graph: the nodes that were recorded while it was captured. They are executed by replay()."""
    recording: Recording

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.nodes: list[Node] = []
        self.begin = 0

    def capture_begin(self, *_args: Any, **_kwargs: Any) -> None:
        self.recording.order.wait_for_all()
        self.begin = len(self.recording.nodes)

    def capture_end(self) -> None:
        self.recording.order.wait_for_all()  # nothing was executed
        self.nodes = self.recording.nodes[self.begin:]
        del self.recording.nodes[self.begin:]

    def replay(self) -> None:
        for node in self.nodes:
            again = Node(node.kind, dict(node.fields), node.reads, node.writes)
            again.draws = node.draws
            self.recording.append(again)

    def reset(self) -> None:
        self.nodes = []

    def pool(self) -> tuple[int, int]:
        return (0, 0)


@contextlib.contextmanager
def captured(graph: Graph, *_args: Any, **_kwargs: Any) -> Iterator[None]:
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()


def cuda_module(recording: Recording, device: dict[str, Any]) -> Module:
    Graph.recording = Event.recording = Stream.recording = recording
    order = recording.order
    known = properties_of(device)

    def seed(_seed: int) -> None:
        recording.random = digest("seed", _seed)

    values: dict[str, Any] = {
        "is_available": lambda: True, "is_initialized": lambda: True, "init": lambda: None, "device_count": lambda: 1,
        "current_device": lambda: 0, "set_device": lambda _d: None, "synchronize": lambda *_a: order.wait_for_all(),
        "get_device_properties": lambda *_d: known, "get_device_name": lambda *_d: device["name"],
        "get_device_capability": lambda *_d: (device["major"], device["minor"]), "empty_cache": lambda: None,
        "current_stream": lambda *_d: order.current, "default_stream": lambda *_d: order.default, "stream": order.entered,
        "set_stream": lambda stream: setattr(order, "current", stream), "device": entered, "device_of": entered, "memory_allocated": lambda *_d: 0,
        "max_memory_allocated": lambda *_d: 0, "memory_reserved": lambda *_d: 0, "manual_seed": seed,
        "manual_seed_all": seed, "is_bf16_supported": lambda *_a, **_k: True, "reset_peak_memory_stats": lambda *_d: None,
        "is_current_stream_capturing": lambda: False, "_lazy_init": lambda: None, "_is_compiled": lambda: True,
        "get_arch_list": lambda: ["sm_%d%d" % (device["major"], device["minor"])],
        "Stream": Stream, "ExternalStream": Stream, "Event": Event, "CUDAGraph": Graph, "graph": captured,
        "graph_pool_handle": lambda: (0, 0), "_is_in_bad_fork": lambda: False,
        "make_graphed_callables": same, "amp": torch.cuda.amp, "Device": torch.device,
        "nvtx": types.SimpleNamespace(range_push=lambda *_a: None, range_pop=lambda: None, range=entered,
                                      mark=lambda _m: None)}
    module = Module("torch.cuda")
    module.__dict__.update(values)
    module.__path__ = list(torch.cuda.__path__)
    return module


def swapped(first: torch.Tensor, second: torch.Tensor) -> None:
    """torch.utils.swap_tensors, which refuses tensors without data that have other references."""
    with torch.no_grad():
        kept = first.detach()
        first.data, second.data = second.detach(), kept


def install(recording: Recording, extensions: Extensions, device: dict[str, Any]) -> None:
    """Replaces them in this process."""
    torch.cuda = sys.modules["torch.cuda"] = cuda_module(recording, device)
    torch.compile = torch.jit.script = torch.jit.trace = torch.compiler.disable = same
    torch.library.custom_op = torch.library.triton_op = inlined
    torch.library.wrap_triton = same
    # What they say about an extension's operators is known from recording them.
    torch.library.register_fake = torch.library.impl_abstract = registered
    torch.library.register_autograd = lambda *_a, **_k: None
    torch.version.cuda = torch.version.cuda or "13.0"
    building = torch.utils.cpp_extension
    building.load_inline, building.load = extensions.load_inline, extensions.load
    building.CUDA_HOME = building.CUDA_HOME or "/usr/local/cuda"
    torch.utils.swap_tensors = swapped
    recording.autocast.install()
    torch.backends.mha.set_fastpath_enabled(False)

    def manual_seed(value: int) -> Any:
        recording.random = digest("seed", int(value))
        return torch.default_generator
    torch.manual_seed = torch.random.manual_seed = manual_seed
