# Why a program cannot be recorded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys


class Refusal(BaseException):
    """Ends the recording. Not an Exception, so that `except Exception` in a program does not hide it."""

    def __init__(self, code: str, message: str, unsupported: bool = False, line: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.unsupported, self.line = code, message, unsupported, line


def unsupported(message: str, code: str = "unsupported_api") -> Refusal:
    return Refusal(code, message, unsupported=True)


def line_of(file: str) -> int | None:
    """The line of the program `file` that is being executed; None outside it."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return None
