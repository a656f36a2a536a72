# The results of a reference as elements of finite fields, whose arguments are random elements (docs/proof.md).
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import os
from typing import Any

import torch

import field_numbers as field
import float64_place
from case_file import allocate, write_at
from draw_backward import BackwardDraw, storages
from draw_base import Draw
from draw_forward import ForwardDraw, tensors_at
from draw_problem import ProblemDraw
from field_tensor import FieldTensor, NewTensors, NotCovered
from float64_truth import in_float64
from oracle_types import Json
from task_code import output_list
from tensor_values import is_float, leaves, storage_bytes, tree_map

OTHER = 2.0 ** -6  # of the largest result, on average: more than 16-bit types round
NOTHING = 1e-12  # what float64 leaves of numbers that cancel
OTHERS = 1 << 20  # elements of inputs that are no arguments: from this index on


class Lift:
    """Gives tensors the elements of the arguments that they are."""

    def __init__(self, draw: Draw, numbers: field.Numbers) -> None:
        self.numbers, self.places = numbers, {}
        tensors = [v for v in leaves(draw.args) if isinstance(v, torch.Tensor)]
        for index, tensor in enumerate(tensors):
            if is_float(tensor) and tensor.numel():
                place = tensor.untyped_storage().data_ptr()
                if place in self.places:
                    raise NotCovered("two arguments in the same memory")
                self.places[place] = index
        for value in leaves(draw.args):
            if isinstance(value, float):
                numbers.note(value)

    def __call__(self, value: Any) -> Any:
        if not is_float(value):
            return value.clone() if isinstance(value, torch.Tensor) else value
        if value.dtype.itemsize == 1:
            raise NotCovered("an argument of type %s" % str(value.dtype).replace("torch.", ""))
        if value.numel() == 0:
            return value.double()
        index = self.places.get(value.untyped_storage().data_ptr())
        if index is None:  # the kernel does not get it, so the result must not depend on it
            index = self.places[value.untyped_storage().data_ptr()] = OTHERS + len(self.places)
        if bool((value == 0).any()):  # their elements are not zero
            self.numbers.functions.add("zeros among the inputs")
        positions = torch.arange(storage_bytes(value) // value.element_size())
        positions = positions.as_strided(value.shape, value.stride(), value.storage_offset()).contiguous()
        real = value.detach().double().contiguous()
        return FieldTensor(real, field.inputs(self.numbers.seed, index, positions), self.numbers)


def results_of(draw: Draw, lift: Lift) -> list[Any]:
    if isinstance(draw, BackwardDraw):
        inputs, grads = tree_map(lift, draw.inputs), [g if g is None else lift(g) for g in draw.grads]
        with in_float64(), draw.trace.repeat(), NewTensors(lift.numbers):
            return draw.gradients(inputs, grads)
    if isinstance(draw, ForwardDraw):
        args = tree_map(lift, draw.args)
        with torch.no_grad(), in_float64(), draw.trace.repeat(), NewTensors(lift.numbers):
            return list(output_list(draw.function(*args))[0]) + tensors_at(args, draw.changed)
    if isinstance(draw, ProblemDraw):
        state = {k: lift(v) if isinstance(v, torch.Tensor) else v for k, v in draw.model.state_dict().items()}
        model, inputs = copy.deepcopy(draw.model).double(), tree_map(lift, draw.inputs)
        with torch.no_grad(), in_float64(), draw.trace.repeat(), NewTensors(lift.numbers):
            return list(output_list(torch.func.functional_call(model, state, tuple(inputs)))[0])
    raise NotCovered("this kind of task")


def saved_results(draw: Draw, lift: Lift) -> dict[int, FieldTensor]:
    """Arguments that are results of the forward function, by their index: elements of the reference's own results."""
    if not isinstance(draw, BackwardDraw) or not draw.gets_results():
        return {}
    inputs, grads = tree_map(lift, draw.inputs), [g if g is None else lift(g) for g in draw.grads]
    given = storages((draw.inputs, draw.grads))
    found = {}
    with in_float64(), NewTensors(lift.numbers):
        computed = leaves(draw.arguments_of(inputs, grads))
    for argument, elements in zip(leaves(draw.args), computed):
        if not is_float(argument) or argument.numel() == 0 or storages(argument) <= given:
            continue
        if not isinstance(elements, FieldTensor) or elements.shape != argument.shape:
            raise NotCovered("an argument that the forward function makes")
        if storage_bytes(argument) != argument.numel() * argument.element_size():
            raise NotCovered("a part of a result of the forward function as an argument")
        in_storage = elements.with_parts(
            lambda part, a=argument: torch.empty(a.numel(), dtype=part.dtype).as_strided(a.shape, a.stride()).copy_(part)
            .as_strided((a.numel(),), (1,)))
        found[lift.places[argument.untyped_storage().data_ptr()]] = in_storage
    return found


def has_numbers(outputs: list[Any], wanted: list[Any]) -> bool:
    """Whether the real numbers of elements are these, up to rounding."""
    for got, known in zip(outputs, wanted):
        if not isinstance(got, FieldTensor) or not is_float(known) or known.numel() == 0:
            continue
        known = known.detach().double()
        both = got.real.isfinite() & known.isfinite()
        size = float(known[both].abs().max()) if bool(both.any()) else 0.0
        if got.real.shape != known.shape or float((got.real - known)[both].abs().mean()) > max(OTHER * size, NOTHING):
            return False
    return True


def check_numbers(outputs: list[Any], draw: Draw) -> None:
    """The rules follow real numbers, too. If these are others than PyTorch's, a rule is wrong. Where results cancel,
    only float64 shows it."""
    if not has_numbers(outputs, draw.reference()) and not has_numbers(outputs, draw.truth_at(float64_place.CPU, None)):
        raise NotCovered("its rules give other numbers than PyTorch")


def make_elements(draw: Draw, seed: int, folders: list[str], name: str) -> Json:
    """Residues modulo each p, then modulo each q, of 32 bits: of the outputs, then of `arguments` in the order of their
    storages. `counts`: of each output's elements; null for one without elements."""
    numbers = field.Numbers(seed)
    draw.reference()  # makes the trace
    lift = Lift(draw, numbers)
    try:
        outputs = results_of(draw, lift)
        check_numbers(outputs, draw)
        arguments = saved_results(draw, lift)
    except NotCovered as reason:
        return {"not_covered": str(reason)}
    numbers.combine()
    found = [o if isinstance(o, FieldTensor) else None for o in outputs]
    data = b"".join(part.contiguous().to(torch.int32).reshape(-1).numpy().tobytes()
                    for o in (*found, *arguments.values()) if o is not None for part in o.residues)
    path, fd = allocate(folders, name, max(len(data), 1))
    try:
        write_at(fd, data, 0)
    finally:
        os.close(fd)
    return {"file": path, "bytes": len(data), "counts": [None if o is None else o.numel() for o in found],
            "arguments": [{"index": index, "count": o.numel()} for index, o in arguments.items()],
            "functions": sorted(numbers.functions),
            "numbers": [{"value": value.hex(), "residues": residues} for value, residues in numbers.known.items()]}
