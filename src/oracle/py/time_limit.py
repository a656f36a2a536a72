# A limit of the time that a task's code may take. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from torch.overrides import TorchFunctionMode

from dtype_trace import SETS_STATE

PATIENCE = 10  # times the limit, until the process ends: the code may call no operation of PyTorch


class TooSlow(BaseException):
    """Not an Exception, so that code which tries something else after a failure does not catch it."""


class TimeLimit(TorchFunctionMode):
    """Raises TooSlow when an operation of PyTorch begins after the time is over: there everything that is entered is
    left in order. A signal could interrupt PyTorch while it enters or leaves a mode (dtype_trace.py), which would
    then change all later results. Raises it again a second later, because finalizers lose exceptions."""

    def __init__(self, seconds: float, what: str) -> None:
        super().__init__()
        self.seconds, self.what, self.end = seconds, what, time.monotonic() + seconds

    def __enter__(self) -> TimeLimit:
        self.before = signal.signal(signal.SIGALRM, self.end_process)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * self.seconds)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)
        super().__exit__(*error)

    def end_process(self, *_: object) -> NoReturn:
        sys.stderr.write("\n%s takes more than %g s\n" % (self.what, PATIENCE * self.seconds))
        sys.stderr.flush()
        os._exit(1)

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        if time.monotonic() > self.end and function not in SETS_STATE:
            self.end = time.monotonic() + 1.0
            raise TooSlow("%s takes more than %g s" % (self.what, self.seconds))
        return function(*args, **(kwargs or {}))


def limit_time(seconds: float, what: str) -> contextlib.AbstractContextManager:
    """`what`: for the message. 0 seconds: no limit."""
    return TimeLimit(seconds, what) if seconds > 0 else contextlib.nullcontext()
