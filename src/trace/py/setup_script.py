# A setup.py: runs it with stand-ins for setuptools and PyTorch's build, and says which extension it describes.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import builtins
import fnmatch
import glob
import io
import os
import pathlib
import posixpath
import subprocess
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch
import torch.utils.cpp_extension

from recording import Recording
from refusal import unsupported
from standins import Module, install

ROOT = "/candidate"  # where the script finds its folder
MOST = 256           # items of a list


class Extension:
    """What CUDAExtension, CppExtension and setuptools.Extension make."""

    def __init__(self, name: str, sources: Iterable[Any], *_args: Any, **kwargs: Any) -> None:
        self.name, self.sources = str(name), [os.fspath(s) for s in sources]
        self.include_dirs = [os.fspath(d) for d in kwargs.get("include_dirs") or []]
        self.define_macros = list(kwargs.get("define_macros") or [])
        self.extra_compile_args = kwargs.get("extra_compile_args") or []
        self.libraries, self.extra_link_args = kwargs.get("libraries") or [], kwargs.get("extra_link_args") or []

    def described(self) -> dict[str, Any]:
        args = self.extra_compile_args
        flags = [str(f) for f in (args.get("nvcc") or [] if isinstance(args, dict) else args)]
        if isinstance(args, dict):
            flags += [str(f) for f in args.get("cxx") or [] if str(f).startswith("-D") and f not in flags]
        for name, value in self.define_macros:
            flags.append("-D%s" % name if value is None else "-D%s=%s" % (name, value))
        return {"name": self.name, "sources": [relative(s) for s in self.sources][:MOST], "flags": flags[:MOST],
                "include_dirs": [relative(d) for d in self.include_dirs][:MOST]}


class CudaExtension(Extension):
    pass


class BuildExtension:
    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    @classmethod
    def with_options(cls, **_kwargs: Any) -> type[BuildExtension]:
        return cls


def place(path: Any) -> str:
    return posixpath.normpath(posixpath.join(ROOT, os.fsdecode(path)))


def relative(path: Any) -> str:
    """A path below the script's folder; other paths stay absolute."""
    full = place(path)
    return "." if full == ROOT else full[len(ROOT) + 1:] if full.startswith(ROOT + "/") else full


class Folder:
    """The files in the script's folder: their names, and the contents of `texts`. Other files are empty when read."""

    def __init__(self, names: list[str], texts: dict[str, str]) -> None:
        self.files = {posixpath.join(ROOT, name) for name in names}
        self.texts = {posixpath.join(ROOT, name): text for name, text in texts.items()}
        self.folders = {ROOT}
        for file in self.files:
            while (file := posixpath.dirname(file)) not in self.folders:
                self.folders.add(file)

    def matches(self, pattern: Any, *_args: Any, root_dir: Any = None, recursive: bool = False, **_kwargs: Any) -> list[str]:
        text = os.fsdecode(pattern)
        wanted = place(posixpath.join(os.fsdecode(root_dir), text) if root_dir else text).split("/")
        absolute = text.startswith("/")
        found = [p for p in sorted(self.files | self.folders) if self.fits(p.split("/"), wanted, recursive)]
        return found if absolute else [relative(p) for p in found]

    def fits(self, parts: list[str], wanted: list[str], recursive: bool) -> bool:
        if not wanted:
            return not parts
        if wanted[0] == "**" and recursive:
            return self.fits(parts, wanted[1:], True) or bool(parts) and self.fits(parts[1:], wanted, True)
        return bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and self.fits(parts[1:], wanted[1:], recursive)

    def listed(self, path: Any = ".") -> list[str]:
        folder = place(path)
        if folder not in self.folders:
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return sorted({p[len(folder) + 1:].split("/")[0] for p in self.files if p.startswith(folder + "/")})

    def install(self) -> None:
        real_open, real_exists, real_isdir, real_isfile = io.open, os.path.exists, os.path.isdir, os.path.isfile

        def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not isinstance(file, int) and place(file) in self.files and "r" in mode:
                text = self.texts.get(place(file), "")
                return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)
            return real_open(file, mode, *args, **kwargs)

        def paths(pattern: str) -> Any:
            return lambda path, text, **_kwargs: [type(path)(p) for p in self.matches(
                posixpath.join(place(path), pattern + text), recursive=True)]

        glob.glob = self.matches
        glob.iglob = lambda *args, **kwargs: iter(self.matches(*args, **kwargs))
        pathlib.Path.glob, pathlib.Path.rglob = paths(""), paths("**/")
        pathlib.Path.resolve = lambda path, **_kwargs: type(path)(place(path))
        pathlib.Path.read_text = lambda path, *_a, **_k: open_file(path).read()
        os.listdir, os.getcwd, os.chdir = self.listed, lambda: ROOT, lambda _path: None
        os.path.realpath = lambda path, **_kwargs: place(path)
        os.path.exists = lambda p: place(p) in self.files | self.folders or real_exists(p)
        os.path.isfile = lambda p: place(p) in self.files or real_isfile(p)
        os.path.isdir = lambda p: place(p) in self.folders or real_isdir(p)
        pathlib.Path.exists, pathlib.Path.is_file = lambda p, **_k: os.path.exists(p), lambda p: os.path.isfile(p)
        builtins.open = io.open = open_file


def module(name: str, **values: Any) -> types.ModuleType:
    made = Module(name)
    made.__dict__.update(values, __path__=[])
    sys.modules[name] = made
    return made


def compiler_version(command: Any, *_args: Any, **kwargs: Any) -> Any:
    """subprocess.check_output, which scripts use to ask nvcc for its version."""
    words = command.split() if isinstance(command, str) else [os.fspath(word) for word in command]
    if posixpath.basename(words[0]) != "nvcc" or words[1:] not in (["-V"], ["--version"]):
        raise unsupported("a setup.py that runs %s" % words[0][:80])
    text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release %s, V%s\n" % ((torch.version.cuda,) * 2)
    is_text = any(kwargs.get(name) for name in ("text", "universal_newlines", "encoding"))
    return text if is_text else text.encode()


def extensions_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs the script. Returns its extensions with CUDA files."""
    calls: list[dict[str, Any]] = []
    standins = {"setup": lambda **kwargs: calls.append(kwargs), "Extension": Extension, "Command": object,
                "find_packages": lambda *_a, **_k: [], "find_namespace_packages": lambda *_a, **_k: []}
    command = module("setuptools.command.build_ext", build_ext=BuildExtension)
    for name in ("setuptools", "distutils", "distutils.core"):
        module(name, __version__="80.0", **standins)
    module("setuptools.command", build_ext=command)
    module("wheel")
    module("wheel.bdist_wheel", bdist_wheel=BuildExtension)
    subprocess.check_output = compiler_version
    recording = Recording("setup.py")
    install(recording, types.SimpleNamespace(load_inline=None, load=None), request["device"])
    building = torch.utils.cpp_extension
    building.CUDAExtension, building.CppExtension, building.BuildExtension = CudaExtension, Extension, BuildExtension
    building.include_paths = building.library_paths = lambda *_args, **_kwargs: []
    building._get_cuda_arch_flags = lambda *_args, **_kwargs: []
    Folder(request["names"], request["texts"]).install()
    sys.argv[:] = ["setup.py", "build_ext"]
    script = {"__name__": "__main__", "__file__": posixpath.join(ROOT, "setup.py"), "__builtins__": builtins}
    exec(compile(request["source"], request["file"], "exec"), script)
    if not calls:
        raise unsupported("a setup.py that does not call setup()")
    described = [e for call in calls for e in call.get("ext_modules") or [] if isinstance(e, Extension)]
    return [e.described() for e in described if any(s.endswith(".cu") for s in e.sources)][:MOST]
