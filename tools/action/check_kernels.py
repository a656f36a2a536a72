#!/usr/bin/env python3
"""Checks the kernels of a repository with `cupel check`, and reports the verdicts to GitHub Actions.

action.yml runs this script; docs/action.md describes the inputs. It writes annotations to standard output, a table to
the file $GITHUB_STEP_SUMMARY, and outputs to the file $GITHUB_OUTPUT. Names of files and messages of cupel can contain
text that a kernel's author chose, so all of them are escaped.

Exit status: 0 every kernel passed, 1 a verdict fails the step (--fail-on), 2 a kernel could not be judged.
SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import argparse
import collections
import dataclasses
import glob
import json
import os
import pathlib
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

MOST_ANNOTATIONS = 10  # of one kernel: GitHub shows 10 errors and 10 warnings of a step
MOST_ROWS = 500  # of the table: GitHub refuses a summary of more than 1 MiB
LONGEST_TEXT = 600
VERDICTS = ("accepted", "rejected", "unsupported", "error")
FAILING = {"rejected": {"rejected", "error"}, "unsupported": {"rejected", "unsupported", "error"}, "never": {"error"}}
STATUS = {"rejected": 1, "unsupported": 1, "error": 2}
# Options that `cupel build` shares with `cupel check`: True if a value follows.
BUILD_OPTIONS = {"--arch": True, "--flag": True, "--include": True, "--python": True, "--allow-weak-sandbox": False}


class InputError(Exception):
    """An input of the action is invalid."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    path: str  # relative to the workspace if it is inside
    task: str
    backward: bool


@dataclasses.dataclass(frozen=True)
class Remark:
    """The content of an annotation. `file` and `line` are as cupel writes them; the line may be 0."""
    severity: str  # "error" or "warning"
    title: str
    message: str
    file: str = ""
    line: int = 0


@dataclasses.dataclass
class Checked:
    kernel: Kernel
    verdict: str
    remarks: list[Remark]
    settings: str = ""
    log: str = ""


# Escaping.

def printable(text: str) -> str:
    """`text` on one line, cut at LONGEST_TEXT, without control characters and marks for the text direction."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT - 1] + "…"


def command_data(text: str) -> str:
    """The message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """The value of a workflow command's property."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(text: str) -> str:
    """Plain text in Markdown. Character references prevent markup, HTML, links, mentions and table cells."""
    def escaped(c: str) -> str:
        if c == "@":
            return "&#64;&#8203;"  # a zero-width space: neither a mention nor an address
        return c if c.isalnum() or c == " " or not c.isascii() else f"&#{ord(c)};"
    return "".join(map(escaped, printable(text)))


def code(text: str) -> str:
    return f"<code>{markdown(text)}</code>"


# The kernels.

def is_backward(path: pathlib.PurePath) -> bool:
    """Uses the names of `cupel suite run`: backward.cu, NAME_backward.cu, backward/NAME.cu."""
    return path.stem.startswith("backward") or path.stem.endswith("_backward") or path.parent.name == "backward"


def task_of(path: pathlib.PurePath, tasks: str) -> str:
    """The task in `tasks` with the name of the kernel's file or of one of its folders: TASK.cu, TASK/forward.cu."""
    for name in (path.stem, *(parent.name for parent in path.parents)):
        folder = pathlib.Path(tasks, name)
        if name and (any((folder / f"func_{way}.py").is_file() for way in ("forward", "backward"))):
            return str(folder)
        if name and folder.with_name(name + ".py").is_file():
            return str(folder.with_name(name + ".py"))
    return ""


def listed(file: str) -> Iterator[Kernel]:
    """The kernels of a list, in the format of `cupel suite run`: one line of JSON for each kernel."""
    try:
        text = pathlib.Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the list {file}: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            path, task, backward = entry["kernel"], entry["task"], entry.get("backward", False)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f'{file}:{number}: write a line like {{"kernel": "k.cu", "task": "my_task"}}') from error
        if not (isinstance(path, str) and isinstance(task, str) and isinstance(backward, bool)):
            raise InputError(f'{file}:{number}: "kernel" and "task" must be texts, and "backward" true or false')
        yield Kernel(path, task, backward)


def matching(pattern: str, task: str, tasks: str) -> Iterator[Kernel]:
    """The kernels of one line of the input: a glob, a file, or a list (.jsonl)."""
    if pattern.endswith(".jsonl"):
        yield from listed(pattern)
        return
    paths = [pattern] if os.path.isfile(pattern) else [
        path for path in sorted(glob.glob(pattern, recursive=True))
        if path.endswith((".cu", ".py")) and os.path.isfile(path)]
    if not paths:
        raise InputError(f"no kernel matches {pattern}: give .cu or .py files of this repository")
    for path in paths:
        pure = pathlib.PurePath(path)
        own = task or (task_of(pure, tasks) if tasks else "")
        if not own:
            raise InputError(f"{path} has no task: set the input task, or set the input tasks to a folder that has "
                             f"a task with the name of the file or of its folder")
        yield Kernel(path, own, is_backward(pure))


def kernels_of(patterns: str, task: str, tasks: str) -> tuple[list[Kernel], list[str]]:
    """The kernels of the input, each once, and the errors in its lines."""
    kernels: dict[Kernel, None] = {}
    faults = []
    for pattern in filter(None, map(str.strip, patterns.splitlines())):
        try:
            kernels.update(dict.fromkeys(matching(pattern, task, tasks)))
        except InputError as error:
            faults.append(str(error))
    if not kernels and not faults:
        faults.append("the input kernels is empty: give .cu or .py files of this repository")
    return list(kernels), faults


# Checking.

def build_options(args: list[str]) -> list[str]:
    """The options in `args` that `cupel build` also takes."""
    chosen, rest = [], iter(args)
    for arg in rest:
        name, has_value, _ = arg.partition("=")
        if name in BUILD_OPTIONS:
            chosen.append(arg)
            if BUILD_OPTIONS[name] and not has_value:
                chosen += [value for value in (next(rest, None),) if value is not None]
    return chosen


def document_of(argv: list[str], file: pathlib.Path) -> tuple[int, dict[str, Any], str]:
    """The exit status, the JSON document and the text of a cupel command."""
    file.unlink(missing_ok=True)
    done = subprocess.run([*argv, f"--json={file}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    log = done.stdout.decode("utf-8", "replace")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = {}
    return done.returncode, document if isinstance(document, dict) else {}, log


def place_of(where: str) -> tuple[str, int]:
    """The file and the line of "kernel.cu:31"; ("", 0) for any other place."""
    match = re.fullmatch(r"(.+):(\d{1,9})", where)
    return (match[1], int(match[2])) if match else ("", 0)


def remarks_of(verdict: dict[str, Any], diagnostics: list[dict[str, Any]], severity: str) -> list[Remark]:
    """The reasons, then compile errors and findings at other lines."""
    remarks = []
    for reason in verdict.get("reasons", []):
        file, line = place_of(reason["where"])
        message = reason["message"] if file or not reason["where"] else f"{reason['where']}: {reason['message']}"
        remarks.append(Remark(severity, reason["code"], message, file, line))
    for one in diagnostics:
        if one["severity"] == "error":
            remarks.append(Remark(severity, "compile_error", one["message"], one["file"], one["line"]))
    for setting in verdict.get("settings", []):
        for one in setting["findings"]:
            level = severity if one["severity"] == "error" else "warning"
            message = f"{one['message']} {one['where']}".strip()
            remarks.append(Remark(level, one["code"], f"{message} ({setting['id']})", one["file"], one["line"]))
    first: dict[Any, Remark] = {}
    for number, remark in enumerate(remarks):
        first.setdefault((remark.title, remark.file, remark.line) if remark.file else number, remark)
    return list(first.values())


def check(kernel: Kernel, cupel: str, options: list[str], fail_on: str, file: pathlib.Path) -> Checked:
    argv = [cupel, "check", os.path.abspath(kernel.path), f"--task={kernel.task}", "--device=emu", *options]
    if kernel.backward:
        argv.append("--backward")
    status, document, log = document_of(argv, file)
    verdict = document.get("verdict")
    if verdict not in VERDICTS:
        message = document.get("error") or f"cupel ended with status {status} and wrote no verdict: see the log"
        remedy = document.get("remedy", "")
        # An answer in Python that cannot be followed has no verdict, but is unsupported.
        verdict = "unsupported" if status == 3 else "error"
        message = f"{message}: {remedy}" if remedy else message
        document = {"reasons": [{"code": verdict, "where": "", "message": message}]}
    diagnostics = []
    if any(reason["code"] == "compile_error" for reason in document["reasons"]):
        # The verdict has the first error; a build has all of them.
        report = file.with_suffix(".build.json")
        _, built, _ = document_of([cupel, "build", argv[2], f"--task={kernel.task}", *build_options(options)], report)
        report.unlink(missing_ok=True)
        diagnostics = built.get("diagnostics", [])
    severity = "error" if verdict in FAILING[fail_on] else "warning"
    settings = document.get("settings", [])
    passed = sum(setting["status"] == "passed" for setting in settings)
    if verdict == "accepted" and not passed:
        verdict = severity = "error"
        document = {"reasons": [{"code": verdict, "where": "", "message": "accepted, but no setting passed"}]}
    return Checked(kernel, verdict, remarks_of(document, diagnostics, severity),
                   f"{passed} of {len(settings)}" if settings else "", log)


# Reporting.

def place_in(workspace: pathlib.Path, file: pathlib.Path) -> pathlib.Path | None:
    """The file if it is in the workspace. A kernel's author can choose names (#line) that no file can have."""
    try:
        file = file.resolve()
        return file if file.is_file() and file.is_relative_to(workspace) else None
    except (OSError, ValueError):
        return None


def annotation(remark: Remark, kernel: Kernel | None) -> str:
    """A workflow command. It names the remark's file if that is in the workspace, otherwise the kernel's file."""
    title, message, properties = remark.title, remark.message, {}
    if kernel is not None:
        workspace = pathlib.Path.cwd().resolve()
        own = pathlib.Path(kernel.path).resolve()
        place, line = place_in(workspace, own), 0
        if remark.file:
            if named := place_in(workspace, own.parent / remark.file):
                place, line = named, remark.line
            else:
                message = f"{remark.file}:{remark.line}: {message}"
        if place is not None:
            properties["file"] = str(place.relative_to(workspace))
        if place is not None and line > 0:
            properties["line"] = str(line)
        title = f"{title} ({pathlib.PurePath(kernel.task).name})"
    properties["title"] = printable(title)
    listing = ",".join(f"{name}={command_property(value)}" for name, value in properties.items())
    return f"::{remark.severity} {listing}::{command_data(printable(message))}"


def show_log(title: str, log: str) -> None:
    """Prints `log` in a collapsed group. GitHub ignores commands in it, because it cannot contain the token."""
    token = secrets.token_hex(16)
    print(f"::group::{command_data(printable(title))}\n::stop-commands::{token}")
    print(log.rstrip("\n"))
    print(f"::{token}::\n::endgroup::")


def summary(results: list[Checked], faults: list[str], counts: collections.Counter[str]) -> str:
    """A table with a row for each kernel."""
    marks = {"accepted": "✅", "rejected": "❌", "unsupported": "⚠️", "error": "❗"}
    lines = ["## cupel", "", ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or
             "No kernel was checked.", ""]
    lines += [f"- {marks['error']} {markdown(fault)}" for fault in faults] + ([""] if faults else [])
    if results:
        lines += ["| kernel | task | direction | verdict | settings passed | reason |", "|---|---|---|---|---|---|"]
    for result in results[:MOST_ROWS]:
        reason = result.remarks[0] if result.remarks and result.verdict != "accepted" else None
        why = f"{code(reason.title)} {markdown(reason.message)}" if reason else ""
        cells = (code(result.kernel.path), code(pathlib.PurePath(result.kernel.task).name),
                 "backward" if result.kernel.backward else "forward", f"{marks[result.verdict]} {result.verdict}",
                 result.settings, why)
        lines.append(f"| {' | '.join(cells)} |")
    if len(results) > MOST_ROWS:
        lines += ["", f"The table leaves out {len(results) - MOST_ROWS} more kernels."]
    lines += ["", "The kernels ran on the emulator, which does not measure speed."]
    return "\n".join(lines) + "\n"


def append(variable: str, text: str) -> None:
    """Appends to the file that an environment variable of GitHub names."""
    if file := os.environ.get(variable):
        with open(file, "a", encoding="utf-8", errors="replace") as stream:
            stream.write(text)


def options_of(args: argparse.Namespace) -> list[str]:
    """The arguments of `cupel check` after the kernel and its task."""
    if args.fail_on not in FAILING:
        raise InputError(f"the input fail-on is {args.fail_on}: set it to one of {', '.join(FAILING)}")
    if args.task and args.tasks:
        raise InputError("the inputs task and tasks are both set: set one of them")
    try:
        options = shlex.split(args.args)
    except ValueError as error:
        raise InputError(f"the input args cannot be split into words: {error}") from error
    named = (("settings", args.settings), ("seed", args.seed))
    return options + [f"--{name}={value}" for name, value in named if value]


def run(args: argparse.Namespace) -> int:
    folder = pathlib.Path(args.verdicts)
    results: list[Checked] = []
    faults: list[str] = []
    try:
        options = options_of(args)
        kernels, faults = kernels_of(args.kernels, args.task, args.tasks)
        folder.mkdir(parents=True, exist_ok=True)
        for number, kernel in enumerate(kernels, 1):
            result = check(kernel, args.cupel, options, args.fail_on, folder / f"{number}.json")
            results.append(result)
            show_log(f"{kernel.path}: {result.verdict}", result.log)
            for remark in result.remarks[:MOST_ANNOTATIONS]:
                print(annotation(remark, kernel), flush=True)
    except (InputError, OSError) as error:
        faults.append(str(error))
    counts = collections.Counter(result.verdict for result in results)
    failing = [STATUS[verdict] for verdict in FAILING.get(args.fail_on, ()) if counts[verdict]]
    if counts["unsupported"] == len(results) > 0 and args.fail_on != "never" and not failing:
        faults.append("no kernel could be judged, because all use something unsupported")
    for fault in faults:
        print(annotation(Remark("error", "cupel", fault), None), flush=True)
    append("GITHUB_STEP_SUMMARY", summary(results, faults, counts))
    append("GITHUB_OUTPUT", "".join(f"{verdict}={counts[verdict]}\n" for verdict in VERDICTS) +
           f"verdicts={printable(str(folder))}\n")
    return max([2 if faults else 0, *failing])


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks kernels with cupel and reports to GitHub Actions.")
    parser.add_argument("--kernels", required=True, help="Globs or lists (.jsonl) of kernels, one per line")
    parser.add_argument("--task", default="", help="Task of all kernels")
    parser.add_argument("--tasks", default="", help="Folder of tasks; a kernel's file or folder has its task's name")
    parser.add_argument("--settings", default="", help="single, multi, heldout or all")
    parser.add_argument("--seed", default="", help="Seed of the inputs")
    parser.add_argument("--args", default="", help="More arguments of cupel check")
    parser.add_argument("--cupel", default="cupel", help="The program")
    parser.add_argument("--fail-on", default="rejected", help=", ".join(FAILING))
    parser.add_argument("--verdicts", default=tempfile.gettempdir() + "/cupel-verdicts",
                        help="Folder for the verdicts as JSON")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
