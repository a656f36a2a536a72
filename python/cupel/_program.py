"""Finds the `cupel` program and runs it. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FOLDER = pathlib.Path(__file__).resolve().parent


class CupelError(Exception):
    """cupel itself could not do what was asked. A kernel that is wrong is a result and never raises.

    status: exit status of the program (2: wrong usage or a broken environment, 3: unsupported,
    130: interrupted). remedy: what to do about it; may be empty.
    """

    def __init__(self, message: str, remedy: str = "", status: int = 2) -> None:
        super().__init__(f"{message}\n{remedy}" if remedy else message)
        self.message, self.remedy, self.status = message, remedy, status


def program() -> pathlib.Path:
    """The path of the program: $CUPEL_PROGRAM, or the one in this package. Errors: CupelError."""
    named = os.environ.get("CUPEL_PROGRAM")
    path = pathlib.Path(named) if named else _FOLDER / "bin" / "cupel"
    if not path.is_file():
        raise CupelError(
            f"the cupel program is missing: {path}",
            "unset CUPEL_PROGRAM or set it to the program"
            if named
            else "install the package with `pip install .`; an editable install has no program",
        )
    return path


def environment() -> dict[str, str]:
    """The environment for the program. The program looks for PyTorch in $CUPEL_PYTHON, then in python3
    on PATH. If the variable is not set and this Python has PyTorch, it becomes this Python. The nvcc that
    `pip install ".[nvcc]"` installs is last on PATH: a toolkit on PATH or in $CUDA_HOME goes first."""
    variables = dict(os.environ)
    if not variables.get("CUPEL_PYTHON") and importlib.util.find_spec("torch") is not None:
        variables["CUPEL_PYTHON"] = sys.executable
    folders = [variables.get("PATH", os.defpath), *_folders_of_nvcc()]
    variables["PATH"] = os.pathsep.join(folders)
    return variables


def _folders_of_nvcc() -> list[str]:
    """The folders of nvcc in the package nvidia-cuda-nvcc, the newest first; empty without the package."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    return [
        str(nvcc.parent)
        for place in places or []
        for nvcc in sorted(pathlib.Path(place).glob("cu*/bin/nvcc"), reverse=True)
    ]


def version() -> str:
    """The version of the installed package; "0" if it runs from a source tree."""
    from importlib import metadata

    try:
        return metadata.version("cupel")
    except metadata.PackageNotFoundError:
        return "0"


def main() -> None:
    """Replaces this process by the program. The entry point of `cupel` and of `python -m cupel`."""
    try:
        path = program()
    except CupelError as error:
        sys.exit(f"cupel: {error}")
    os.execve(path, [str(path), *sys.argv[1:]], environment())


@dataclass(frozen=True)
class Finished:
    """One run of the program."""

    status: int
    text: str  # what it printed on standard output
    document: dict[str, Any]  # what it wrote with --json


def run(arguments: Sequence[str], *, timeout: float | None = None,
        env: Mapping[str, str] | None = None) -> Finished:
    """Runs the program with `--json` and `--quiet`, and reads the document.

    timeout: seconds, after which the program is interrupted (it stops its children). Errors:
    CupelError if the program has no answer; subprocess.TimeoutExpired.
    """
    with tempfile.TemporaryDirectory(prefix="cupel-") as folder:
        document = pathlib.Path(folder) / "document.json"
        command = [str(program()), *arguments, "--quiet", "--json", str(document)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace",
                              env={**environment(), **(env or {})}) as child:
            try:
                out, err = child.communicate(timeout=timeout)
            except BaseException:
                child.send_signal(signal.SIGINT)
                try:
                    child.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    child.kill()
                raise
        try:
            answer = json.loads(document.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            text = "\n".join(part for part in (out.strip(), err.strip()) if part)
            raise CupelError(text or f"cupel ended with status {child.returncode}", status=child.returncode) from None
        if answer.get("schema", "").startswith("cupel.error/"):
            raise CupelError(answer.get("error", ""), answer.get("remedy", ""), child.returncode)
        return Finished(child.returncode, out, answer)
