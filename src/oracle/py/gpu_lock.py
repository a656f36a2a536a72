# The GPU's lock (src/gpu/gpu_lock.h) for PyTorch's processes, which take it in shared mode to compute.
# While another process measures time on that GPU, or waits to do so, no work starts there.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 600.0  # seconds to wait for the GPU
PAUSE = 0.002  # seconds between two attempts
REPORT_SECONDS = 20.0
TURN = ".turn"  # suffix of a second lock: a waiting process holds it, so that every process gets its turn


class SharedUse:
    """The context in which the GPU is used. May be nested. Without a path, the GPU is not shared."""

    def __init__(self, path: str, patience: float = PATIENCE, waiting: Callable[[], None] = lambda: None) -> None:
        self.path, self.patience, self.waiting = path, patience, waiting
        self.lock = self.turn = None
        self.depth = 0

    def __enter__(self) -> SharedUse:
        if self.depth == 0:
            self.acquire(self.patience)
        self.depth += 1
        return self

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.release()

    def acquire(self, patience: float) -> None:
        """Raises BlockingIOError if the lock is not free within `patience` seconds."""
        if not self.path:
            return
        if self.lock is None:
            self.lock, self.turn = self.open(self.path), self.open(self.path + TURN)
        end = time.monotonic() + patience
        self.wait(self.turn, fcntl.LOCK_EX, end)
        try:
            self.wait(self.lock, fcntl.LOCK_SH, end)
        finally:
            fcntl.flock(self.turn, fcntl.LOCK_UN)

    def release(self) -> None:
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    @staticmethod
    def open(path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def wait(self, lock: int, operation: int, end: float) -> None:
        reported = time.monotonic()
        while True:
            try:
                return fcntl.flock(lock, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                now = time.monotonic()
                if now > end:
                    raise
                if now - reported > REPORT_SECONDS:
                    self.waiting()
                    reported = now
                time.sleep(PAUSE)
