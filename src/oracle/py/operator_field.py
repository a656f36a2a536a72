# Executes an operator of a plan on elements of a finite field (docs/proof.md). Each floating-point view has one more
# dimension in front, of 2: float64 numbers, then the bits of elements, p and q << 32.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

import field_numbers as field
from field_tensor import FieldTensor, NewTensors, NotCovered
from operator_rules import Refused
from oracle_types import Json

WORD = (1 << 32) - 1


class Elements:
    """Views of one call as tensors with elements."""

    def __init__(self, request: Json, view_of: Any) -> None:
        given = request["field"]
        self.index, self.view_of = given["index"], view_of
        self.numbers = field.Numbers(given["seed"])
        self.numbers.known = {}
        for number in given["numbers"]:
            self.numbers.put(float.fromhex(number["value"]), self.residues(number["p"], number["q"]))
        self.lifted: list[tuple[FieldTensor, torch.Tensor]] = []

    def residues(self, p: Any, q: Any) -> list[Any]:
        """Those of the one field that counts. All others are zero."""
        parts = [p * 0] * len(field.MODULI)
        parts[self.index], parts[field.FIELDS + self.index] = p, q
        return parts

    def lift(self, memory: list[torch.Tensor], view: Json) -> torch.Tensor:
        place = self.view_of(memory, view)
        if not place.is_floating_point():
            return place
        bits = place[1].contiguous().view(torch.int64)
        residues = [part.clone() for part in self.residues(bits & WORD, bits >> 32)]
        tensor = FieldTensor(place[0].clone(), residues, self.numbers)
        self.lifted.append((tensor, place))
        return tensor

    def put(self, result: Any, place: torch.Tensor) -> None:
        if not isinstance(result, FieldTensor):
            result = FieldTensor(result.double(), field.of_tensor(result), self.numbers)
        if list(result.shape) != list(place.shape[1:]):
            raise Refused("a result has another shape than when it was recorded")
        p, q = result.residues[self.index], result.residues[field.FIELDS + self.index]
        place[0].copy_(result.real)
        place[1].copy_((p | q << 32).contiguous().view(torch.float64))


def execute(request: Json, memory: list[torch.Tensor], call: Any, view_of: Any) -> None:
    elements = Elements(request, view_of)
    try:
        with NewTensors(elements.numbers):
            schema, arguments, results = call(request, memory, elements.lift)
    except NotCovered as reason:
        raise Refused("a field does not cover it: %s" % reason) from None
    written = [value for argument, value in zip(schema.arguments, arguments, strict=True)
               if argument.alias_info is not None and argument.alias_info.is_write]
    for tensor, place in elements.lifted:
        if any(value is tensor for value in written):
            elements.put(tensor, place)
    for result, view in zip(results, request["results"], strict=True):
        if view is None:
            continue
        place = view_of(memory, view)
        if place.is_floating_point():
            elements.put(result, place)
        else:
            place.copy_(result)
