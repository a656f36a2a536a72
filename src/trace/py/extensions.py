# Extensions of a program: their sources go to cupel, which compiles them, and calls of their functions go to cupel's
# recorder of host code. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from memory_files import MemoryFiles
from recording import Node, Recording, number
from refusal import Refusal, unsupported
from storages import CUDA, HOST, TYPES
from streams import Handle

MOST_BYTES = 4 << 20  # of an extension's sources
Ask = Callable[[dict[str, Any]], dict[str, Any]]  # sends a question to cupel and returns its answer


def texts_of(sources: Any) -> list[str]:
    if sources is None:
        return []
    listed = [sources] if isinstance(sources, (str, bytes)) or not isinstance(sources, Iterable) else list(sources)
    return [str(text) for text in listed]


def names_of(signature: str) -> tuple[str, list[str]]:
    """The name of a function and of its arguments: "f(x: torch.Tensor, k: int = 3) -> torch.Tensor"."""
    name, _, rest = signature.partition("(")
    names, depth, start = [], 0, 0
    for i, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0 or (letter == "," and depth == 0):
            names.append(rest[start:i].partition(":")[0].strip())
            start = i + 1
        if depth < 0:
            break
    return name, [n for n in names if n]


class Functions:
    """The module that load_inline and load return."""

    def __init__(self, extensions: Extensions, image: int, name: str, signatures: list[str]) -> None:
        functions: dict[str, list[list[str]]] = {}
        for signature in signatures:
            function, arguments = names_of(signature)
            functions.setdefault(function, []).append(arguments)
        self.__dict__.update({"__name__": name, "_cupel": (extensions, image, functions)})

    def __getattr__(self, name: str) -> Any:
        extensions, image, functions = self.__dict__["_cupel"]
        if name not in functions:
            raise AttributeError("module '%s' has no attribute '%s'" % (self.__dict__["__name__"], name))

        def function(*args: Any, **kwargs: Any) -> Any:
            return extensions.call(image, name, positional(name, functions[name], args, kwargs))
        function.__name__ = name
        self.__dict__[name] = function
        return function


class Library:
    """A namespace of torch.ops: the operators of an extension's TORCH_LIBRARY."""

    def __init__(self, name: str, functions: Functions) -> None:
        self.__dict__.update({"__name__": name, "_cupel": functions})

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.__dict__["_cupel"], name)
        function.default = function  # the overload
        return function


def positional(name: str, overloads: list[list[str]], args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by their position. Raises TypeError as a module of pybind11 does."""
    if not kwargs:
        return tuple(args)
    for names in overloads:
        rest = names[len(args):]
        given = [kwargs[n] for n in rest if n in kwargs]
        if len(given) == len(kwargs) and all(n in kwargs for n in rest[:len(given)]):
            return tuple(args) + tuple(given)
    raise TypeError("%s(): incompatible function arguments (%s)" % (name, ", ".join(sorted(kwargs))))


class BuildError(RuntimeError):
    """What PyTorch raises for an extension that does not compile. Programs may go on without it."""

    def __init__(self, name: str, refusal: dict[str, Any]) -> None:
        super().__init__("Error building extension '%s': %s" % (name, refusal["message"]))
        self.refusal = refusal


class Extensions:
    def __init__(self, recording: Recording, files: MemoryFiles, ask: Ask) -> None:
        self.recording, self.files, self.ask = recording, files, ask

    # ---- building ----

    def load_inline(self, name: str, cpp_sources: Any = None, cuda_sources: Any = None, functions: Any = None,
                    extra_cflags: Any = None, extra_cuda_cflags: Any = None, *_args: Any, **kwargs: Any) -> Functions | None:
        cpp, cuda = texts_of(cpp_sources), texts_of(cuda_sources)
        exported = []
        if isinstance(functions, dict):
            exported = [str(f) for f in functions]
        elif functions is not None:
            exported = texts_of(functions)
        return self.build({"name": str(name), "cpp": cpp, "cuda": cuda, "exports": exported, "files": [],
                           "flags": [str(f) for f in extra_cuda_cflags or []]}, kwargs)

    def load(self, name: str, sources: Any, extra_cflags: Any = None, extra_cuda_cflags: Any = None, *_args: Any,
             **kwargs: Any) -> Functions | None:
        request: dict[str, Any] = {"name": str(name), "cpp": [], "cuda": [], "exports": [], "files": [],
                                   "flags": [str(f) for f in extra_cuda_cflags or []], "named": []}
        for source in texts_of(sources):
            text = self.files.text(source)
            part = "files" if text is None else "cuda" if source.endswith((".cu", ".cuh")) else "cpp"
            request["named"].append({"name": source, "list": part, "index": len(request[part])})
            request[part].append(source if text is None else text)
        return self.build(request, kwargs)

    def build(self, request: dict[str, Any], kwargs: dict[str, Any]) -> Functions | None:
        if sum(len(text) for text in request["cpp"] + request["cuda"]) > MOST_BYTES:
            raise self.recording.refuse(unsupported("the sources of extension %s are too large" % request["name"][:80]))
        answer = self.ask(dict(request, ask="build"))
        if "failed" in answer:
            self.recording.note("extension %s does not compile: %s" % (request["name"][:80],
                                                                       answer["failed"]["message"][:300]))
            raise BuildError(request["name"], answer["failed"])
        functions = Functions(self, answer["image"], request["name"], answer["functions"])
        for library in answer["libraries"]:
            if library in ("aten", "prim", "prims"):
                raise self.recording.refuse(unsupported("an extension that adds operators to torch.ops.%s" % library))
            setattr(torch.ops, library, Library(library, functions))
        return functions if kwargs.get("is_python_module", True) else None

    # ---- calls ----

    def call(self, image: int, name: str, args: Any) -> Any:
        recording = self.recording
        tensors: list[torch.Tensor] = []
        encoded = [self.encode(value, name, tensors) for value in args]
        answer = self.ask({"ask": "call", "image": image, "function": name, "arguments": encoded})
        storages = [recording.storage_of(t) for t in tensors]
        made: dict[int, Any] = {}
        results = [self.result(output, tensors, made) for output in answer["outputs"]]
        fresh = [recording.storage_of(t) for t in made.values()]
        node = Node("call", {"call": answer["call"], "storages": [s.index for s in storages],
                             "made": [[buffer, recording.storage_of(t).index] for buffer, t in made.items()]},
                    storages, fresh + [s for s in storages if s.argument is None])
        recording.append(node)
        if answer["tuple"]:
            return tuple(results)
        return results[0] if results else None

    def encode(self, value: Any, name: str, tensors: list[torch.Tensor]) -> Any:
        """An argument in the form of a plan's values, with tensors of whole storages."""
        if isinstance(value, torch.Tensor):
            storage = self.recording.storage_of(value)
            if storage.device == HOST:
                raise self.recording.refuse(Refusal("wrong_arguments", "%s gets a tensor that is on the CPU" % name))
            tensors.append(value)
            return dict(self.recording.view(value), bytes=storage.bytes, storage=storage.index, kind="tensor")
        if value is None:
            return {"kind": "none"}
        if isinstance(value, bool):
            return {"kind": "bool", "value": value}
        if isinstance(value, Handle):
            return {"kind": "int", "value": 0}  # extensions know the default stream
        if isinstance(value, int) or hasattr(value, "__index__"):
            return {"kind": "int", "value": int(value)}
        if isinstance(value, float):
            return {"kind": "float", "value": number(value)}
        if isinstance(value, str):
            return {"kind": "string", "value": value}
        if isinstance(value, (list, tuple)):
            return {"kind": "tuple", "items": [self.encode(item, name, tensors) for item in value]}
        raise self.recording.refuse(unsupported("%s gets an argument of type %s" % (name, type(value).__name__)))

    def result(self, output: Any, tensors: list[torch.Tensor], made: dict[int, Any]) -> Any:
        """What the extension returned: a number, or a tensor of one of the storages that it got or of new memory."""
        if output is None:
            return None
        if "number" in output:
            return output["number"]
        recording = self.recording
        dtype, shape, strides = TYPES[output["dtype"]], output["shape"], output["strides"]
        if output["argument"] is None and output["buffer"] not in made:
            with recording.paused():
                base = torch.empty(max(output["bytes"], 0), dtype=torch.uint8, device="cpu")
            storage = recording.storages.add(base, "extension %d" % len(recording.storages.all), CUDA)
            storage.call = recording.call
            made[output["buffer"]] = base
        base = tensors[output["argument"]] if output["argument"] is not None else made[output["buffer"]]
        return recording.on_memory(base, dtype, output["offset"] // dtype.itemsize, shape, strides)
