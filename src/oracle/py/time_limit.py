# A limit of the time that computing a case may take. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn


class TooSlow(BaseException):
    """Not an Exception, so that code which tries something else after a failure does not catch it."""


@contextlib.contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raises TooSlow after so many seconds, between two operations of PyTorch, and again every second, because
    finalizers lose exceptions. 0: no limit."""
    def end(*_: object) -> NoReturn:
        raise TooSlow("computing the case takes more than %g s" % seconds)
    if seconds <= 0:
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
