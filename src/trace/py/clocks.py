# The clocks of a recorded program. Nothing that it could measure is executed, so the time advances with each reading, by
# less each time: a program that chooses by time takes what it measures last. Sleeping takes no time.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

NOTE = "the program chooses by measured time; what it measured last was recorded as the fastest"
READ = ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime")
SECOND = 10**9
START = 1_700_000_000 * SECOND


class Clock:
    def __init__(self, file: str, note: Callable[[str], None]) -> None:
        self.file, self.note = file, note
        self.now, self.readings = START, 0

    def advance(self) -> int:
        """The time in nanoseconds."""
        self.readings += 1
        self.now += SECOND // (1000 + self.readings)
        if sys._getframe(2).f_code.co_filename == self.file:
            self.note(NOTE)
        return self.now

    def nanoseconds(self, *_args: Any) -> int:
        return self.advance()

    def seconds(self, *_args: Any) -> float:
        return self.advance() / SECOND

    def sleep(self, seconds: float, /) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.now += min(int(seconds * SECOND), START)

    def install(self) -> None:
        for name in READ:
            setattr(time, name, self.seconds)
            setattr(time, name + "_ns", self.nanoseconds)
        time.sleep = self.sleep  # type: ignore[assignment]
        timeit.default_timer = self.seconds
