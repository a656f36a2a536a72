# A Python program that defines ModelNew: runs its file, constructs its modules, and records calls of their forward.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import contextlib
import functools
import importlib
import linecache
import random
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

import torch

from calls import Calls
from clocks import Clock
from devices import Devices
from extensions import Ask, BuildError, Extensions
from imports import provide, when_imported
from launch_description import Description
from memory_files import MemoryFiles
from recording import Recording
from refusal import Refusal, unsupported
from source_kernels import CompileError, SourceKernels, compile_kernel
from standins import install
from states import Bound, bind
from storages import CUDA, TYPES, digest


class Program:
    def __init__(self, request: dict[str, Any], ask: Ask) -> None:
        self.file, self.source, self.reference = request["file"], request["source"], request.get("reference")
        self.path = request.get("path") or self.file
        self.recording = Recording(self.file)
        self.devices = Devices(self.recording)
        self.models: dict[str, Bound] = {}
        self.devices.install()
        files = MemoryFiles()
        files.install()
        install(self.recording, Extensions(self.recording, files, ask), request["device"])
        Clock(self.file, self.recording.note).install()
        kernels = SourceKernels(self.recording, ask)
        torch.cuda._compile_kernel = functools.partial(compile_kernel, kernels)
        provide("cupy", lambda: self.standin("cupy_standin", kernels))
        provide("cuda", lambda: self.standin("cuda_core_standin", kernels))
        Description.kernels, Description.reference = kernels, self.reference_class
        when_imported("triton", lambda: self.use_triton(ask, request["device"], request.get("wanted")))
        self.module = self.run(self.source, self.file, "answer")

    def use_triton(self, ask: Ask, device: dict[str, Any], wanted: Any) -> None:
        from triton_kernels import Kernels
        try:
            Kernels(self.recording, ask, device, wanted).install()
        except Refusal as refusal:
            raise self.recording.refuse(refusal) from None

    def standin(self, module: str, kernels: SourceKernels) -> dict[str, types.ModuleType]:
        found: dict[str, types.ModuleType] = importlib.import_module(module).modules(kernels)
        return found

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        with self.recording.fake, self.recording, self.devices, torch.no_grad():
            yield

    def run(self, source: str, file: str, name: str) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__file__ = self.path if file == self.file else file
        sys.modules[name] = module  # dataclasses look here
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # inspect.getsource looks here
        with self.recorded():
            exec(compile(source, file, "exec"), module.__dict__)
        return module

    # ---- construction ----

    def construct(self, cls: Any, init: dict[str, Any]) -> Any:
        self.recording.random = digest("seed")
        random.seed(0)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(0)
        with self.recorded():
            return cls(*init["args"], **init["keywords"])

    def reference_class(self) -> Any:
        """The class of the task's own module, if it has one."""
        return None if self.reference is None else self.run(self.reference, "the task", "reference").Model

    def reference_state(self, init: dict[str, Any]) -> list[tuple[str, str]]:
        """How the task's own module makes its parameters: (path, content); empty if that cannot be found."""
        if self.reference is None:
            return []
        try:
            model = self.construct(self.reference_class(), init)
            return [(path, self.recording.content_of(tensor))
                    for path, tensor in model.state_dict(keep_vars=True).items() if isinstance(tensor, torch.Tensor)]
        except Exception:
            return []
        finally:
            self.recording.refusal = None

    def model_class(self) -> type:
        for name in ("ModelNew", "Model"):
            cls = getattr(self.module, name, None)
            if isinstance(cls, type):
                if name == "Model":
                    self.recording.note("the program defines no class ModelNew; its class Model is judged")
                return cls
        raise Refusal("no_function", "the program defines no class ModelNew")

    def bound(self, request: dict[str, Any]) -> Bound:
        key = digest(request["init"], request["arguments"])
        if key not in self.models:
            init = {"args": [plain(v) for v in request["init"]["args"]],
                    "keywords": {k: plain(v) for k, v in request["init"]["keywords"].items()}}
            made = self.reference_state(init)
            cls = self.model_class()
            first = len(self.recording.storages.all)
            model = self.construct(cls, init)
            self.check()
            self.models[key] = bind(self.recording, model, request["arguments"], made, first)
            for note in self.models[key].notes:
                self.recording.note(note)
        return self.models[key]

    # ---- calls ----

    def record(self, request: dict[str, Any]) -> dict[str, Any]:
        calls = Calls(self, self.bound(request), request)
        return dict(calls.record(), notes=self.recording.notes, searches=self.recording.searches)

    def check(self) -> None:
        if self.recording.refusal is not None:
            raise self.recording.refusal

    def tensor(self, given: dict[str, Any], number: int, is_input: bool) -> torch.Tensor:
        """An argument of the task's function without data."""
        dtype = TYPES[given["dtype"]]
        with self.recorded(), self.recording.paused():
            base = torch.empty(given["bytes"], dtype=torch.uint8, device="cpu")
            tensor = self.recording.on_memory(base, dtype, given["offset"], given["shape"], given["strides"])
        storage = self.recording.storages.add(tensor, "argument %d" % number, CUDA)
        storage.argument, storage.is_input, storage.call = number, is_input, self.recording.call
        # Hosts in C++ may read several integers; a program is followed with single numbers alone.
        if given.get("value") is not None and tensor.numel() == 1 and not tensor.dtype.is_complex:
            data = bytearray(base64.b64decode(given["value"]))
            with torch.utils._python_dispatch._disable_current_modes():
                storage.value = torch.frombuffer(data, dtype=torch.uint8).view(dtype).item()
        return tensor


def plain(entry: dict[str, Any]) -> Any:
    if "value" not in entry:
        raise unsupported("an argument of the task's constructor is neither a number nor a text")
    return entry["value"]


def line_in_kernel(error: Any, file: str) -> int | None:
    """The line of the program of an error of Triton's compiler, which numbers the lines of each function."""
    head = (error.src or "").split("\n")[0].strip()
    for number, text in enumerate(linecache.getlines(file), 1):
        if head and text.strip() == head:
            return number + getattr(error.node, "lineno", 1) - 1
    return None


def explain(error: BaseException, file: str) -> dict[str, Any]:
    """A refusal for an exception that the program raised."""
    if isinstance(error, Refusal):
        where = "%s:%d" % (file, error.line) if error.line else ""
        return {"code": error.code, "message": error.message, "where": where, "unsupported": error.unsupported}
    if isinstance(error, (BuildError, CompileError)):
        return dict(error.refusal, unsupported=False)
    line = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            line = frame.lineno
    if isinstance(error, SyntaxError) and error.filename == file:
        line = error.lineno
    text = str(error)
    while hasattr(error, "error_message") and hasattr(error, "node"):  # of Triton's compiler: the text is the source
        text, line = error.error_message or "", line_in_kernel(error, file) or line
        if not hasattr(error.__cause__, "error_message"):
            break
        error = error.__cause__
    text = text.strip().split("\n")[0][:500]
    message = "%s: %s" % (type(error).__name__, text) if text else type(error).__name__
    missing = isinstance(error, ImportError) and not isinstance(error, AttributeError)
    return {"code": "unsupported_api" if missing else "host_exception", "message": message,
            "where": "%s:%d" % (file, line) if line else "", "unsupported": missing}
