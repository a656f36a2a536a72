# Answers cupel's requests in a locked process: loads a program and records its calls.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import without_threads


def prepare() -> None:
    """What locked processes need and cannot make."""
    without_threads.prepare()


def serve(channel: Any) -> None:
    """`channel`: read() returns a request or None, write() sends an answer or a question."""
    from program import Program, explain
    program: Any = None

    def ask(question: dict[str, Any]) -> dict[str, Any]:
        channel.write(question)
        answer = channel.read()
        if answer is None:
            raise SystemExit(0)
        return answer

    while (request := channel.read()) is not None:
        file = request.get("file") or (program.file if program is not None else "")
        try:
            if request["op"] == "load":
                program = Program(request, ask)
                program.check()
                answer: dict[str, Any] = {"loaded": True}
            elif request["op"] == "setup":
                from setup_script import extensions_of
                answer = {"extensions": extensions_of(request)}
            else:
                answer = program.record(request)
        except SystemExit as error:
            answer = {"refusal": explain(error, file)}
        except BaseException as error:
            hidden = getattr(getattr(program, "recording", None), "refusal", None)
            answer = {"refusal": explain(hidden or error, file)}
        channel.write(answer)
