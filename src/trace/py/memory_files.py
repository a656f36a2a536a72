# Files that a program writes exist in the memory of its process alone: programs write sources of extensions and then
# load them. Everything else reads the real files that the sandbox shows. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import builtins
import io
import os
import pathlib
import tempfile
from typing import Any

MOST_BYTES = 64 << 20  # of all files


class MemoryFiles:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.made = 0

    @staticmethod
    def place(path: Any) -> str:
        return os.path.abspath(os.fsdecode(path))

    def text(self, path: Any) -> str | None:
        """The text of a file that the program wrote."""
        data = self.files.get(self.place(path))
        return None if data is None else data.decode(errors="replace")

    def store(self, path: str, data: bytes) -> None:
        if sum(len(d) for d in self.files.values()) + len(data) > MOST_BYTES:
            raise OSError("no space left")
        self.files[path] = data

    def opened(self, path: str, mode: str, encoding: str | None) -> Any:
        known = self.files.get(path, b"")
        raw = Bytes(self, path, b"" if "w" in mode or "x" in mode else known, "r" not in mode or "+" in mode)
        if "a" in mode:
            raw.seek(0, io.SEEK_END)
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding=encoding or "utf-8", newline="")

    def folder(self) -> str:
        self.made += 1
        path = "/tmp/program-%d" % self.made
        self.folders.add(path)
        return path

    def install(self) -> None:
        real_open, real_exists, real_isdir, real_isfile = io.open, os.path.exists, os.path.isdir, os.path.isfile
        remember = self.folders.add

        def open_file(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *args: Any,
                      **kwargs: Any) -> Any:
            if isinstance(file, int):
                return real_open(file, mode, buffering, encoding, *args, **kwargs)
            path = self.place(file)
            if set(mode) & set("wax+") or path in self.files:
                return self.opened(path, mode, encoding)
            return real_open(file, mode, buffering, encoding, *args, **kwargs)

        def mkdir(path: Any, *_args: Any, **_kwargs: Any) -> None:
            remember(self.place(path))

        def mkdtemp(*_args: Any, **_kwargs: Any) -> str:
            return self.folder()

        class TemporaryDirectory:
            def __init__(inner, *_args: Any, **_kwargs: Any) -> None:
                inner.name = self.folder()

            def __enter__(inner) -> str:
                return inner.name

            def __exit__(inner, *_error: Any) -> None:
                return None

            def cleanup(inner) -> None:
                return None

        def named(mode: str = "w+b", *_args: Any, suffix: str = "", **_kwargs: Any) -> Any:
            path = self.folder() + "/file" + (suffix or "")
            file = self.opened(path, mode, None)
            if isinstance(file, Bytes):
                file.name = path
                return file
            return NamedText(file.buffer, path)

        builtins.open = io.open = open_file
        os.mkdir = os.makedirs = mkdir
        os.path.exists = lambda p: isinstance(p, int) or self.is_known(p) or real_exists(p)
        os.path.isdir = lambda p: not isinstance(p, int) and self.place(p) in self.folders or real_isdir(p)
        os.path.isfile = lambda p: not isinstance(p, int) and self.place(p) in self.files or real_isfile(p)
        pathlib.Path.mkdir = lambda path, *_a, **_k: mkdir(path)
        pathlib.Path.exists = lambda path, **_k: os.path.exists(path)
        tempfile.mkdtemp, tempfile.gettempdir = mkdtemp, lambda: "/tmp"
        tempfile.TemporaryDirectory, tempfile.NamedTemporaryFile = TemporaryDirectory, named

    def is_known(self, path: Any) -> bool:
        return self.place(path) in self.files or self.place(path) in self.folders


class Bytes(io.BytesIO):
    """A file in memory. Its contents are stored when it is flushed or closed."""
    name = ""

    def __init__(self, files: MemoryFiles, path: str, data: bytes, is_written: bool) -> None:
        super().__init__(data)
        self.files, self.path, self.is_written = files, path, is_written

    def flush(self) -> None:
        if self.is_written and not self.closed:
            self.files.store(self.path, self.getvalue())

    def close(self) -> None:
        self.flush()
        super().close()


class NamedText(io.TextIOWrapper):
    def __init__(self, buffer: Any, path: str) -> None:
        super().__init__(buffer, encoding="utf-8", newline="")
        self.path = path

    @property
    def name(self) -> str:
        return self.path
