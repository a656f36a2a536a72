"""check, bench, profile, suite and export. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Union

from cupel import _documents as documents
from cupel._program import CupelError, Finished, run

Path = Union[str, "os.PathLike[str]"]

_SCHEMAS = {
    documents.Verdict: "cupel.verdict/1",
    documents.Bench: "cupel.bench/1",
    documents.Profile: "cupel.profile/1",
    documents.Suite: "cupel.suite/1",
    documents.Export: "cupel.export/1",
}


def check(
    kernel: Path | None = None,
    task: Path = "",
    *,
    source: str | None = None,
    backward: bool = False,
    settings: str | None = None,
    trials: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    gpu_model: str | None = None,
    full_size: bool = False,
    python: Path | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> documents.Verdict:
    """Is the kernel right? Returns the verdict, whatever it is.

    kernel: path of a .cu file or of a Python answer; or give the text of a .cu file as `source`.
    task: a name under tasks/, a folder, or a .py file. settings: "single", "multi", "heldout" or "all".
    seed: repeats a verdict. device: "emu" or "gpu[:N]". options: further options of `cupel check`, as
    ["--flag", "-DTILE=32"]. timeout: seconds. Errors: CupelError, subprocess.TimeoutExpired.
    """
    with _kernel_file(kernel, source) as path:
        done = run(
            ["check", path, "--task", _task(task), *_flags(backward=backward, full_size=full_size),
             *_values(settings=settings, trials=trials, seed=seed, device=device, gpu_model=gpu_model,
                      python=python), *options],
            timeout=timeout,
        )
    return _read(documents.Verdict, done)


def bench(
    kernels: Path | Sequence[Path],
    task: Path,
    *,
    backward: bool = False,
    settings: str | None = None,
    baselines: str | None = None,
    rounds: int | None = None,
    energy: bool = False,
    seed: int | None = None,
    device: str | None = None,
    python: Path | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> documents.Bench:
    """How fast are the kernels, compared with PyTorch and with each other? Needs a GPU.

    baselines: names separated by commas ("eager,compile"), or "none". energy: also measures joules per
    call. Other parameters as in check(). Errors: CupelError, subprocess.TimeoutExpired.
    """
    paths = [kernels] if isinstance(kernels, (str, os.PathLike)) else list(kernels)
    done = run(
        ["bench", *map(os.fspath, paths), "--task", _task(task), *_flags(backward=backward, energy=energy),
         *_values(settings=settings, baselines=baselines, rounds=rounds, seed=seed, device=device,
                  python=python), *options],
        timeout=timeout,
    )
    return _read(documents.Bench, done)


def profile(
    kernel: Path | None = None,
    task: Path = "",
    *,
    source: str | None = None,
    backward: bool = False,
    settings: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    gpu_model: str | None = None,
    full_size: bool = False,
    python: Path | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> documents.Profile:
    """What does the kernel spend its time on? On the emulator times are estimates from counted work.

    A kernel that runs nowhere (it does not compile, say) raises NotAccepted. Parameters and other errors
    as in check().
    """
    with _kernel_file(kernel, source) as path:
        done = run(
            ["profile", path, "--task", _task(task), *_flags(backward=backward, full_size=full_size),
             *_values(settings=settings, seed=seed, device=device, gpu_model=gpu_model, python=python),
             *options],
            timeout=timeout,
        )
    return _read(documents.Profile, done)


def suite(
    tasks: Path,
    kernels: Path | None = None,
    *,
    output: Path,
    direction: str | None = None,
    settings: str | None = None,
    trials: int | None = None,
    jobs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    python: Path | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> documents.Suite:
    """Judges many kernels on many tasks. If `output` exists, the run is continued.

    tasks: a folder of tasks, one task, or a list of kernels. kernels: a folder of kernels; if None, the
    tasks' own. direction: "forward", "backward" or "both". Other parameters and errors as in check().
    """
    done = run(
        ["suite", "run", _task(tasks), "--output", os.fspath(output),
         *_values(kernels=kernels, direction=direction, settings=settings, trials=trials, jobs=jobs, seed=seed,
                  device=device, python=python), *options],
        timeout=timeout,
    )
    return _read(documents.Suite, done, folder=os.fspath(output))


def export(
    kernel: Path | None = None,
    task: Path = "",
    *,
    output: Path,
    source: str | None = None,
    backward_kernel: Path | None = None,
    name: str | None = None,
    force: bool = False,
    seed: int | None = None,
    device: str | None = None,
    python: Path | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> documents.Export:
    """Writes an accepted kernel (a .cu file) as an installable PyTorch package into the new folder `output`.

    A kernel that is not accepted raises NotAccepted, unless `force` is set. Other parameters and errors as in
    check().
    """
    with _kernel_file(kernel, source) as path:
        done = run(
            ["export", path, "--task", _task(task), "--output", os.fspath(output), *_flags(force=force),
             *_values(backward_kernel=backward_kernel, name=name, seed=seed, device=device, python=python),
             *options],
            timeout=timeout,
        )
    return _read(documents.Export, done)


def _flags(**flags: bool) -> list[str]:
    return ["--" + name.replace("_", "-") for name, is_set in flags.items() if is_set]


def _values(**values: object) -> list[str]:
    words: list[str] = []
    for name, value in values.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def _task(task: Path) -> str:
    if not os.fspath(task):
        raise CupelError("no task is given", "pass task=: a name under tasks/, a folder, or a .py file")
    return os.fspath(task)


@contextlib.contextmanager
def _kernel_file(kernel: Path | None, source: str | None) -> Iterator[str]:
    if (kernel is None) == (source is None):
        raise CupelError("give either a kernel's path or its source")
    if kernel is not None:
        yield os.fspath(kernel)
        return
    with tempfile.TemporaryDirectory(prefix="cupel-") as folder:
        path = pathlib.Path(folder) / "kernel.cu"
        path.write_text(source or "", encoding="utf-8")
        yield str(path)


class NotAccepted(CupelError):
    """The kernel is not accepted, so there is nothing to export or to profile. verdict: why."""

    def __init__(self, verdict: documents.Verdict, status: int) -> None:
        super().__init__(verdict.text.strip(), status=status)
        self.verdict = verdict


def _read(kind: type[documents.T], done: Finished, **more: str) -> documents.T:
    schema = done.document.get("schema")
    if schema == _SCHEMAS[documents.Verdict] and kind is not documents.Verdict:
        raise NotAccepted(documents.read(documents.Verdict, done.document, text=done.text), done.status)
    if schema != _SCHEMAS[kind]:
        raise CupelError(f"the program answered with {schema}, and this package reads {_SCHEMAS[kind]}",
                         "install program and package from the same version")
    return documents.read(kind, done.document, text=done.text, **more)
