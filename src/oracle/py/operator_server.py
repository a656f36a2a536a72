# Answers operators.py's requests: describes the results of PyTorch operators without computing them, and executes
# operators on the CPU for the emulator. Views name their memory by an index and a byte offset.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from operator_rules import CPU, Refused, check_dropout, operator, schemas, value_for, without_statistics
from oracle_types import Json, Send

# Of cupel's dtypes, those that PyTorch's operators compute with.
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)}


def view_of(memory: list[torch.Tensor], view: Json) -> torch.Tensor:
    """`memory`: tensors of bytes."""
    index, offset = view["at"]
    dtype = DTYPES.get(view["dtype"])
    if dtype is None:
        raise Refused("dtype %s is not supported" % view["dtype"])
    size = dtype.itemsize
    if offset % size:
        raise Refused("a tensor is not aligned to its elements")
    whole = memory[index]
    typed = whole[:whole.numel() // size * size].view(dtype)
    return typed.as_strided(view["shape"], view["strides"], typed.storage_offset() + offset // size)


Find = Callable[[list[torch.Tensor], Json], torch.Tensor]


def decoded(memory: list[torch.Tensor], value: Any, find: Find) -> Any:
    """An argument as cupel writes it: null, a bool, a text, {"int"}, {"float"}, {"list"} or {"view"}."""
    if not isinstance(value, dict):
        return value
    if "view" in value:
        return find(memory, value["view"])
    if "list" in value:
        return [decoded(memory, item, find) for item in value["list"]]
    return int(value["int"]) if "int" in value else float(value["float"])


def call(request: Json, memory: list[torch.Tensor], find: Find = view_of) -> tuple[Any, list[Any], list[Any]]:
    """Calls the operator. Returns its schema, its arguments and a list of its results."""
    chosen = operator(request["name"])
    declared = chosen._schema.arguments
    if len(request["arguments"]) != len(declared):
        raise Refused("%s takes %d arguments" % (request["name"], len(declared)))
    device = memory[0].device if memory else CPU
    arguments = [value_for(argument, decoded(memory, value, find), request.get("in_float64", False), device)
                 for argument, value in zip(declared, request["arguments"], strict=True)]
    check_dropout(chosen._schema, arguments)
    arguments = without_statistics(chosen._schema, arguments)
    positional = [value for argument, value in zip(declared, arguments, strict=True) if not argument.kwarg_only]
    named = {argument.name: value for argument, value in zip(declared, arguments, strict=True) if argument.kwarg_only}
    with torch.no_grad():
        results = chosen(*positional, **named)
    return chosen._schema, arguments, list(results) if isinstance(results, (tuple, list)) else [results]


def described(result: torch.Tensor, storages: dict[int, int]) -> Json:
    """`storages`: index by address. "storage" is null for new memory."""
    where = storages.get(result.untyped_storage()._cdata)
    name = str(result.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Refused("its result has dtype %s, which is not supported" % name)
    strides = list(result.stride())
    elements = 0 if result.numel() == 0 else 1 + sum(
        (size - 1) * stride for size, stride in zip(result.shape, strides, strict=True))
    return {"storage": where, "dtype": name, "shape": list(result.shape), "strides": strides,
            "offset": result.storage_offset() if where is not None else 0, "bytes": elements * result.element_size()}


def describe(request: Json) -> Json:
    """The results' shapes and where they are. "mutated": the numbers of the arguments that the operator writes."""
    with FakeTensorMode():
        memory = [torch.empty(size, dtype=torch.uint8, device="cpu") for size in request["storages"]]
        schema, _, results = call(request, memory)
        storages = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(memory)}
        outputs = [described(result, storages) for result in results]
    mutated = [index for index, argument in enumerate(schema.arguments)
               if argument.alias_info is not None and argument.alias_info.is_write]
    return {"outputs": outputs, "mutated": mutated}


def put(result: torch.Tensor, place: torch.Tensor) -> None:
    """Copies a result to its place, if it is not there already (gpu_worker.py)."""
    if result.data_ptr() != place.data_ptr():
        place.copy_(result)
    elif result.stride() != place.stride():
        place.copy_(result.clone())


def execute(request: Json, memory: list[torch.Tensor]) -> None:
    if "field" in request:
        import operator_field  # few requests need it
        return operator_field.execute(request, memory, call, view_of)
    _, _, results = call(request, memory)
    if len(results) != len(request["results"]):
        raise Refused("%s has %d results" % (request["name"], len(results)))
    for result, view in zip(results, request["results"], strict=True):
        if view is None:
            continue
        place = view_of(memory, view)
        is_same = result.dtype == place.dtype or (
            request["in_float64"] and result.is_floating_point() and place.is_floating_point())
        if list(result.shape) != list(place.shape) or not is_same:
            raise Refused("a result of %s has another shape or dtype than when it was recorded" % request["name"])
        put(result, place)


def run(request: Json) -> Json:
    """The memory is in `file`, one range of "ranges" after the other; results are written there."""
    with open(request["file"], "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)  # unmapped with its last tensor
    whole = torch.frombuffer(mapped, dtype=torch.uint8)
    execute(request, [whole[begin:begin + size] for begin, size in request["ranges"]])
    return {}


class OperatorServer:
    def __init__(self, send: Send, _folders: list[str]) -> None:
        self.send = send

    def handle(self, request: Json) -> None:
        try:
            if request["op"] == "schemas":
                reply = {"schemas": schemas()}
            else:
                reply = describe(request) if request["op"] == "describe" else run(request)
        except Refused as error:
            reply = {"refused": str(error)}
        except Exception as error:  # of the operator: the candidate called it wrongly
            reply = {"failure": str(error).split("\n")[0][:500] or type(error).__name__}
        self.send(dict(reply, id=request["id"]))
