# The error of a task, and the text that describes any error of a task's code. Needs no PyTorch.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import traceback


class TaskError(Exception):
    """The task's own code fails, or it cannot be a task. str() says why."""


def describe(error: BaseException, task_path: str) -> str:
    """The last line of a Python error, with its place in the task's own code."""
    if isinstance(error, TaskError):
        return str(error)
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    if isinstance(error, SystemExit):
        text = "the task's code called exit()"
    folder = os.path.dirname(os.path.abspath(task_path))
    place = ""
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno or 0))
    for file, line in frames:
        if os.path.abspath(file).startswith(folder + os.sep) and os.path.exists(file):
            place = "%s:%d: " % (os.path.basename(file), line)
    if isinstance(error, ModuleNotFoundError):
        text += " (install it next to PyTorch, or set CUPEL_PYTHON to a Python that has it)"
    return (place + text)[:2000]
