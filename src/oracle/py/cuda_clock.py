# The clock of cupel's GPU worker, for PyTorch's own CUDA context: the kernel that flushes the L2 cache,
# the probe that shows whether the clocks agree, and a pair of events that become nodes of a CUDA graph.
# Calls the driver with ctypes, because PyTorch does not offer these functions.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from oracle_types import Json

EVENT_RECORD_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL: a capture makes it a node, not a dependency
CAPTURE_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
NODE_KERNEL = 0  # CU_GRAPH_NODE_TYPE_KERNEL
MAX_NODES = 1 << 20

POINTER = ctypes.c_void_p
U64, U32 = ctypes.c_uint64, ctypes.c_uint
SIGNATURES = {
    "cuDeviceGetPCIBusId": [ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
    "cuGetErrorName": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "cuGetErrorString": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "cuModuleLoadData": [ctypes.POINTER(POINTER), ctypes.c_char_p],
    "cuModuleGetFunction": [ctypes.POINTER(POINTER), POINTER, ctypes.c_char_p],
    "cuLaunchKernel": [POINTER] + [U32] * 7 + [POINTER, ctypes.POINTER(POINTER), POINTER],
    "cuEventCreate": [ctypes.POINTER(POINTER), U32],
    "cuEventRecordWithFlags": [POINTER, POINTER, U32],
    "cuEventElapsedTime": [ctypes.POINTER(ctypes.c_float), POINTER, POINTER],
    "cuStreamGetCaptureInfo_v2": [POINTER, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(U64),
                                  ctypes.POINTER(POINTER), ctypes.POINTER(POINTER),
                                  ctypes.POINTER(ctypes.c_size_t)],
    "cuGraphGetNodes": [POINTER, ctypes.POINTER(POINTER), ctypes.POINTER(ctypes.c_size_t)],
    "cuGraphNodeGetType": [POINTER, ctypes.POINTER(ctypes.c_int)],
}


class DriverError(Exception):
    """A call of the CUDA driver failed."""


def open_library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError("cannot open the CUDA driver (%s)" % error) from error


class Driver:
    def __init__(self) -> None:
        self.library = open_library()

    def raw(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self.library, name)
        except AttributeError as error:
            raise DriverError("the CUDA driver is too old: it has no %s" % name) from error
        function.argtypes, function.restype = SIGNATURES[name], ctypes.c_int
        return function(*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        code = self.raw(name, *arguments)
        if code != 0:
            raise DriverError("%s: %s" % (name, self.describe(code)))

    def describe(self, code: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self.raw("cuGetErrorName", code, ctypes.byref(name))
        self.raw("cuGetErrorString", code, ctypes.byref(text))
        return "%s: %s (%d)" % ((name.value or b"?").decode(), (text.value or b"?").decode(), code)


class Kernel:
    """A kernel from PTX text. Its parameters are ctypes values."""

    def __init__(self, driver: Driver, ptx: str, entry: str, grid: int, block: int) -> None:
        self.driver, self.grid, self.block = driver, grid, block
        self.module, self.function = POINTER(), POINTER()
        driver.call("cuModuleLoadData", ctypes.byref(self.module), ptx.encode())
        driver.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, entry.encode())

    def launch(self, stream: int, *parameters: ctypes._SimpleCData) -> None:
        addresses = (POINTER * len(parameters))(*[ctypes.addressof(p) for p in parameters])
        self.driver.call("cuLaunchKernel", self.function, self.grid, 1, 1, self.block, 1, 1, 0,
                         stream, addresses, None)


class Clock:
    """One pair of events for all graphs, since graphs are replayed one at a time."""

    def __init__(self, request: Json, allocate: Callable[[int], torch.Tensor]) -> None:
        """`allocate(bytes)` returns zeroed GPU memory as a tensor."""
        self.driver = Driver()
        # Allocate first: this makes PyTorch create its context, which modules need.
        self.bytes = request["flush_bytes"]
        self.data = allocate(self.bytes)
        self.word = allocate(256)  # the result of the flush
        # One result per thread of the probe.
        self.results = allocate(8 * request["probe_grid"] * request["probe_block"])
        self.flush_kernel = Kernel(self.driver, request["flush_ptx"], request["flush_entry"],
                                   request["flush_grid"], request["flush_block"])
        self.probe_kernel = Kernel(self.driver, request["probe_ptx"], request["probe_entry"],
                                   request["probe_grid"], request["probe_block"])
        self.probe_iterations = request["probe_iterations"]
        self.events = [POINTER(), POINTER()]
        for event in self.events:
            self.driver.call("cuEventCreate", ctypes.byref(event), 0)

    def flush(self, stream: int) -> None:
        """Reads more data than fits into the L2 cache."""
        self.flush_kernel.launch(stream, U64(self.data.data_ptr()), U64(self.bytes),
                                 U64(self.word.data_ptr()))

    def probe(self, stream: int) -> None:
        self.probe_kernel.launch(stream, U64(self.results.data_ptr()), U32(self.probe_iterations))

    def record(self, which: int, stream: int, captured: bool) -> None:
        """Records event 0 or 1. The flag is required in a capture and an error outside one."""
        self.driver.call("cuEventRecordWithFlags", self.events[which], stream,
                         EVENT_RECORD_EXTERNAL if captured else 0)

    def elapsed_us(self) -> float:
        """Time between the two events, which must have completed."""
        milliseconds = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), *self.events)
        return milliseconds.value * 1000.0

    def captured_kernels(self, stream: int) -> int | None:
        """Number of kernel nodes in the graph that `stream` captures, or None if it is unknown."""
        try:
            return self._captured_kernels(stream)
        except DriverError:
            return None

    def _captured_kernels(self, stream: int) -> int | None:
        status, identity, count = ctypes.c_int(), U64(), ctypes.c_size_t()
        graph = POINTER()
        self.driver.call("cuStreamGetCaptureInfo_v2", stream, ctypes.byref(status),
                         ctypes.byref(identity), ctypes.byref(graph), None, None)
        if status.value != CAPTURE_ACTIVE or not graph.value:
            return None
        self.driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        if count.value > MAX_NODES:
            return None
        nodes = (POINTER * max(count.value, 1))()
        self.driver.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        kernels = 0
        for node in nodes[:count.value]:
            kind = ctypes.c_int(-1)
            self.driver.call("cuGraphNodeGetType", node, ctypes.byref(kind))
            kernels += kind.value == NODE_KERNEL
        return kernels
