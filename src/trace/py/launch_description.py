# Makes a program of PTX and a description of its launches (docs/formats/launch.md): a module whose forward allocates
# tensors and launches kernels. Sizes are expressions of the shapes of the call's tensors.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import torch

from launches import Launch, append, packed, pointer, raw
from refusal import Refusal
from source_kernels import ADDRESS_BYTES, Kernel, SourceKernels
from storages import TYPES

INTEGERS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1}
FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}
MAP_DEFAULTS = {"element_strides": None, "interleave": "none", "swizzle": "none", "l2_promotion": "none", "fill": "zero"}
MAP_BYTES = 128  # of a CUtensorMap
SYNTAX = "invalid launch description: "


class Description:
    """One description. Raises Refusal for what it lacks, with the path of the member in it."""
    kernels: SourceKernels  # of this process
    reference: Callable[[], Any]  # the class of the task's module, or None

    def __init__(self, text: str, codes: dict[str, str]) -> None:
        self.json, self.codes = json.loads(text), codes
        self.compiled: dict[str, list[Kernel]] = {}

    def wrong(self, message: str) -> Refusal:
        return self.kernels.recording.refuse(Refusal("wrong_arguments", SYNTAX + message))

    def list_of(self, holder: Any, key: str, where: str) -> list[Any]:
        value = holder.get(key, []) if isinstance(holder, dict) else None
        if not isinstance(value, list):
            raise self.wrong("%s%s is not a list" % (where, key))
        return value

    def number(self, value: Any, names: dict[str, Any], where: str) -> Any:
        """A number, or the value of an expression."""
        if isinstance(value, (bool, int, float)):
            return value
        if not isinstance(value, str):
            raise self.wrong("%s is neither a number nor an expression" % where)
        try:
            result = eval(compile(value, where, "eval"), {"__builtins__": {}}, names)
        except Exception as error:
            raise self.wrong("%s: %s: %s" % (where, value[:200], error)) from None
        if not isinstance(result, (bool, int, float)):
            raise self.wrong("%s: %s is no number" % (where, value[:200]))
        return result

    def sizes(self, values: Any, names: dict[str, Any], where: str) -> list[int]:
        values = values if isinstance(values, list) else [values]
        return [int(self.number(v, names, "%s[%d]" % (where, i))) for i, v in enumerate(values)]

    def kernel(self, name: Any, where: str) -> Kernel:
        for file, code in self.codes.items():
            if file not in self.compiled:
                self.compiled[file] = self.kernels.compile(file, code, language="ptx")
            found = self.kernels.named(self.compiled[file], str(name), True)
            if found is not None:
                return found
        raise self.wrong("%s: no kernel is named %s" % (where, str(name)[:200]))

    # ---- a call ----

    def forward(self, tensors: dict[str, torch.Tensor], numbers: dict[str, Any]) -> Any:
        names: dict[str, Any] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, "state": tensors, **tensors,
                                 **numbers}
        made = self.json.get("tensors", {})
        if not isinstance(made, dict):
            raise self.wrong("tensors is not an object")
        for name, how in made.items():
            tensors[name] = names[name] = self.made(how, names, "tensors.%s" % name)
        for i, step in enumerate(self.list_of(self.json, "launches", "")):
            self.launch(step, tensors, names, "launches[%d]" % i)
        results = [self.tensor(name, tensors, "results") for name in self.list_of(self.json, "results", "")]
        if not results:
            raise self.wrong("results is empty")
        return results[0] if len(results) == 1 else tuple(results)

    def made(self, how: Any, names: dict[str, Any], where: str) -> torch.Tensor:
        dtype = how.get("dtype") if isinstance(how, dict) else None
        if dtype not in TYPES:
            raise self.wrong("%s.dtype is none of %s" % (where, ", ".join(TYPES)))
        shape = self.sizes(how.get("shape", []), names, where + ".shape")
        if "fill" in how:
            return torch.full(shape, self.number(how["fill"], names, where + ".fill"), dtype=TYPES[dtype], device="cuda")
        return torch.empty(shape, dtype=TYPES[dtype], device="cuda")

    def tensor(self, name: Any, tensors: dict[str, torch.Tensor], where: str) -> torch.Tensor:
        if not isinstance(name, str) or name not in tensors:
            raise self.wrong("%s: no tensor is named %s (known: %s)" % (where, str(name)[:80], ", ".join(tensors)[:300]))
        return tensors[name]

    def launch(self, step: Any, tensors: dict[str, torch.Tensor], names: dict[str, Any], where: str) -> None:
        if not isinstance(step, dict):
            raise self.wrong("%s is not an object" % where)
        kernel = self.kernel(step.get("kernel"), where + ".kernel")
        given = self.list_of(step, "arguments", where + ".")
        if len(given) != len(kernel.parameters):
            raise self.wrong("%s.arguments: %s has %d parameters, and the description has %d" % (
                where, kernel.name, len(kernel.parameters), len(given)))
        parameters = [self.argument(value, kernel, i, tensors, names, "%s.arguments[%d]" % (where, i))
                      for i, value in enumerate(given)]

        def dim3(key: str) -> list[int]:
            sizes = self.sizes(step.get(key, [1]), names, where + "." + key)
            if len(sizes) > 3 or any(size < 0 for size in sizes):
                raise self.wrong("%s.%s is not one to three sizes" % (where, key))
            return (sizes + [1, 1, 1])[:3]
        shared = int(self.number(step.get("shared", 0), names, where + ".shared"))
        if shared < 0:
            raise self.wrong("%s.shared is negative" % where)
        launch = Launch(kernel.image, kernel.name, dim3("grid"), dim3("block"), dim3("cluster"),
                        shared, parameters,
                        cooperative=bool(step.get("cooperative", False)))
        append(self.kernels.recording, launch, kernel.hash, kernel.written)

    def argument(self, value: Any, kernel: Kernel, number: int, tensors: dict[str, torch.Tensor], names: dict[str, Any],
                 where: str) -> dict[str, Any]:
        if value is None:
            return raw(bytes(kernel.parameters[number]))
        if isinstance(value, str):
            value = {"tensor": value}
        if not isinstance(value, dict):
            raise self.wrong("%s is neither a tensor's name nor an object" % where)
        if "tensor" in value:
            at = list(self.kernels.recording.view(self.tensor(value["tensor"], tensors, where))["at"])
            at[1] += int(self.number(value.get("offset", 0), names, where + ".offset"))
            size = MAP_BYTES if "tensor_map" in value else ADDRESS_BYTES
            if size != kernel.parameters[number]:
                raise self.wrong("%s has %d bytes, and the kernel's parameter %d" % (where, size, kernel.parameters[number]))
            place = pointer(at)
            return dict(place, tensor_map=self.tensor_map(value["tensor_map"], names, where)) \
                if "tensor_map" in value else place
        (kind, number_of), *rest = list(value.items()) or [("", None)]
        if rest or kind not in (*INTEGERS, *FLOATS, "bfloat16"):
            raise self.wrong("%s has none of tensor, %s" % (where, ", ".join((*INTEGERS, *FLOATS, "bfloat16"))))
        data = bytes_of(kind, self.number(number_of, names, where))
        if len(data) != kernel.parameters[number]:
            raise self.wrong("%s: %s has %d bytes, and the kernel's parameter %d" % (
                where, kind, len(data), kernel.parameters[number]))
        return raw(data)

    def tensor_map(self, given: Any, names: dict[str, Any], where: str) -> dict[str, Any]:
        """A CUtensorMap, with the members that plans have. Sizes are expressions."""
        if not isinstance(given, dict):
            raise self.wrong("%s.tensor_map is not an object" % where)
        fields = dict(MAP_DEFAULTS, **given)
        for key in ("dims", "strides", "box", "element_strides"):
            if fields.get(key) is None and key == "element_strides":
                fields[key] = [1] * len(fields.get("box", []))
            fields[key] = self.sizes(fields.get(key, []), names, "%s.tensor_map.%s" % (where, key))
        return fields


def bytes_of(kind: str, value: Any) -> bytes:
    if kind in INTEGERS:
        return (int(value) % (1 << 8 * INTEGERS[kind])).to_bytes(INTEGERS[kind], "little")
    data = packed(FLOATS.get(kind, "<f"), float(value))
    if kind != "bfloat16":
        return data
    bits = struct.unpack("<I", data)[0]
    if value == value:
        bits += 0x7fff + (bits >> 16 & 1)  # to the nearest, ties to even
    return struct.pack("<H", bits >> 16)


def model(text: str, codes: dict[str, str]) -> type:
    """The class that the description stands for. Its state is that of the task's own module."""
    description = Description(text, codes)
    inputs = description.list_of(description.json, "inputs", "")

    class ModelNew(torch.nn.Module):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__()
            cls = description.reference()
            if cls is not None:
                self.task = cls(*args, **keywords)

        def forward(self, *args: Any) -> Any:
            if len(args) != len(inputs):
                raise description.wrong("inputs has %d names, and the task has %d inputs" % (len(inputs), len(args)))
            tensors = {path.removeprefix("task."): tensor for path, tensor in self.state_dict(keep_vars=True).items()}
            numbers = {n: a for n, a in zip(inputs, args, strict=True) if not isinstance(a, torch.Tensor)}
            tensors.update({n: a for n, a in zip(inputs, args, strict=True) if isinstance(a, torch.Tensor)})
            return description.forward(tensors, numbers)
    return ModelNew
