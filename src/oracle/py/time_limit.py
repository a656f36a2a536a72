# A limit of the time that computing a case may take. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from dtype_trace import SETS_STATE


class TooSlow(BaseException):
    """Not an Exception, so that code which tries something else after a failure does not catch it."""


class TimeLimit(TorchFunctionMode):
    """Raises TooSlow when an operation of PyTorch begins after the time is over: there everything that is entered is
    left in order. A signal could interrupt PyTorch while it enters or leaves a mode (dtype_trace.py), which would
    then change all later results. Raises it again a second later, because finalizers lose exceptions."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        if time.monotonic() > self.end and function not in SETS_STATE:
            self.end = time.monotonic() + 1.0
            raise TooSlow("computing the case takes more than %g s" % self.seconds)
        return function(*args, **(kwargs or {}))


def limit_time(seconds: float) -> contextlib.AbstractContextManager:
    """The context of a case. 0: no limit."""
    return TimeLimit(seconds) if seconds > 0 else contextlib.nullcontext()
