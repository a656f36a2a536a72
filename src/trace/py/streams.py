# Streams and events of torch.cuda. Work in any stream is recorded in the order of the program, so this module checks that
# a GPU must keep that order: no step may use memory that another stream may still write, or write what it may still read.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from clocks import NOTE
from refusal import Refusal
from storages import CUDA, Storage

if TYPE_CHECKING:
    from recording import Node, Recording

Clock = dict[int, int]  # by stream: how many of its steps have ended


def merge(into: Clock, other: Clock) -> None:
    for number, steps in other.items():
        into[number] = max(into.get(number, 0), steps)


class Handle(int):
    """A stream's address. Host code of extensions gets that of the default stream, 0."""


FIRST_HANDLE = 0x51ea3000


class Order:
    """Which steps are ordered before which. An extension's kernels are taken to be in the current stream."""

    def __init__(self) -> None:
        self.steps: Clock = {}  # of each stream so far
        self.host: Clock = {}  # steps for which the program has waited
        self.handles: dict[int, Stream] = {}  # by what cuda_stream says
        self.default = self.current = Stream.__new__(Stream)
        self.add(self.default)

    def add(self, stream: Stream) -> None:
        stream.order, stream.number, stream.clock, stream.outer = self, len(self.steps), {}, []
        stream.device, stream.priority = torch.device("cuda", 0), 0
        stream.cuda_stream = Handle(FIRST_HANDLE + 16 * stream.number if stream.number else 0)
        self.handles[stream.cuda_stream] = stream
        self.steps[stream.number] = 0

    def wait_for_all(self) -> None:
        self.host = dict(self.steps)

    def step(self, node: Node) -> None:
        """Raises Refusal if a stream that uses the node's memory may not have come so far."""
        stream = self.current
        merge(stream.clock, self.host)
        written = {s.index for s in node.writes}
        for storage in node.reads + node.writes:
            self.check(storage, storage.index in written)
        self.steps[stream.number] += 1
        stream.clock[stream.number] = self.steps[stream.number]
        for storage in node.writes:
            storage.writer, storage.readers = (stream.number, stream.clock[stream.number]), {}
        for storage in node.reads:
            storage.readers[stream.number] = stream.clock[stream.number]

    def check(self, storage: Storage, is_written: bool) -> None:
        """Whether a step in the current stream may use a storage."""
        used = dict(storage.readers) if is_written else {}
        merge(used, dict([storage.writer] if storage.writer is not None else []))
        if storage.device == CUDA and any(steps > self.current.clock.get(number, 0) for number, steps in used.items()):
            raise Refusal("unordered_work", "a stream uses memory of another stream without waiting for it "
                                            "(wait_stream(), wait_event() or synchronize() is missing)")

    def check_results(self, storages: list[Storage]) -> None:
        """The caller uses the results in the default stream."""
        self.current = self.default
        merge(self.default.clock, self.host)
        for storage in storages:
            self.check(storage, False)

    @contextlib.contextmanager
    def entered(self, stream: Stream | None) -> Iterator[None]:
        outer, self.current = self.current, stream or self.current
        try:
            yield
        finally:
            self.current = outer


class Stream:
    cuda_stream: Handle
    device_index, device_type, stream_id = 0, 1, 0
    recording: Recording
    order: Order
    number: int
    clock: Clock
    outer: list[Stream]  # those in whose `with` blocks it was entered

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.recording.order.add(self)

    def __enter__(self) -> Stream:
        self.outer.append(self.order.current)
        self.order.current = self
        return self

    def __exit__(self, *_error: Any) -> None:
        self.order.current = self.outer.pop()

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        merge(self.order.host, self.clock)

    def query(self) -> bool:
        """A program may wait until it is true."""
        self.synchronize()
        return True

    def wait_event(self, event: Event) -> None:
        merge(self.clock, event.clock)

    wait_stream = wait_event


class Event:
    recording: Recording
    measured = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.cuda_event, self.clock = 0, {}

    def query(self) -> bool:
        self.synchronize()
        return True

    def elapsed_time(self, _other: Event) -> float:
        """A program that chooses by time takes what it measures last."""
        self.recording.note(NOTE)
        Event.measured += 1
        return 1.0 / Event.measured

    def record(self, stream: Any = None) -> None:
        self.clock = dict((stream or self.recording.order.current).clock)

    def wait(self, stream: Any = None) -> None:
        (stream or self.recording.order.current).wait_event(self)

    def synchronize(self) -> None:
        merge(self.recording.order.host, self.clock)
