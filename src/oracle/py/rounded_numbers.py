# The numbers in a task's code as a kernel has them: rounded to float32. What the code computes from them may differ
# by more than that: 1 - 0.999 is 0.001 in Python, and 0.00099998713 of the float32 number.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import contextlib
import pathlib
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

import float64_place
import memory_limit
from draw_base import Draw
from tensor_values import Outputs, leaves, rounded, tree_map

# Effects on an element that count, as shares of it or of the output's RMS. Smaller ones never matter. If there is a
# larger one, it is no rounding error: int(0.7 * 100) is 69 of the rounded number, and x > 0.9 decides otherwise.
LEAST_EFFECT, MOST_EFFECT = 2.0 ** -24, 2.0 ** -8


class RoundLiterals(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changes = 0

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = rounded(node.value)
        self.changes += value != node.value
        node.value = value
        return node


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def functions_in(namespace: dict[str, Any], module: str) -> Iterator[FunctionType]:
    """The functions and methods that the module defines."""
    for value in list(namespace.values()):
        parts = [value.fget, value.fset] if isinstance(value, property) else [getattr(value, "__func__", value)]
        for part in parts:
            while isinstance(getattr(part, "__wrapped__", None), FunctionType):
                part = part.__wrapped__
            if isinstance(part, FunctionType) and part.__module__ == module:
                yield part
        if isinstance(value, type) and value.__module__ == module:
            yield from functions_in(dict(vars(value)), module)


class RoundedCode:
    """The code of a module with rounded numbers."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        path = str(module.__file__)
        literals = RoundLiterals()
        tree = literals.visit(ast.parse(pathlib.Path(path).read_text(), path))
        codes: dict[tuple[str, int], CodeType | None] = {}
        for code in codes_in(compile(tree, path, "exec")):
            key = (code.co_name, code.co_firstlineno)
            codes[key] = None if key in codes else code  # several on one line: unknown which is which
        self.functions = []
        for function in functions_in(vars(module), module.__name__):
            code = codes.get((function.__code__.co_name, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                self.functions.append((function, code))
        self.globals = {k: v for k, v in vars(module).items() if type(v) is float}
        self.changes = literals.changes > 0 or any(rounded(v) != v for v in self.globals.values())

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        before = [(f, f.__code__, f.__defaults__, f.__kwdefaults__) for f, _ in self.functions]
        try:
            for function, code in self.functions:
                function.__code__ = code
                function.__defaults__ = tree_map(rounded, function.__defaults__)
                function.__kwdefaults__ = {k: rounded(v) for k, v in (function.__kwdefaults__ or {}).items()} or None
            vars(self.module).update({k: rounded(v) for k, v in self.globals.items()})
            yield
        finally:
            vars(self.module).update(self.globals)
            for function, code, defaults, named in before:
                function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, named


def round_attributes(model: torch.nn.Module) -> None:
    """Rounds the numbers that the modules of a model keep."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if type(value) in (float, tuple):
                vars(module)[name] = tree_map(rounded, value)
            elif type(value) is list:
                value[:] = [rounded(v) for v in value]


def differing(rounded_outputs: Outputs, truth: Outputs) -> Outputs:
    """The outputs of rounded numbers that differ from the truth enough to matter; None for the others."""
    found: Outputs = []
    for r, t in zip(rounded_outputs, truth):
        found.append(None)
        if t is None or r is None or not t.is_floating_point() or r.shape != t.shape or t.numel() == 0:
            continue
        with float64_place.place_of(t).work():
            r, t = r.to(torch.float64).cpu(), t.to(torch.float64).cpu()
        finite = torch.where(torch.isfinite(t), t, torch.zeros_like(t))
        effect = (r - t).abs() / finite.abs().clamp_(min=float(finite.square().mean().sqrt()))
        if bool((effect > LEAST_EFFECT).any()) and not bool((effect > MOST_EFFECT).any()):
            found[-1] = r
    return found


class Numbers:
    """What rounding the numbers of a task's code changes: almost always nothing."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.code = module, None

    def truth(self, draw: Draw, truth: Outputs) -> Outputs:
        """Of the outputs that rounding of the numbers changes, the truth for rounded numbers. None for the others."""
        none = [None] * len(truth)
        try:
            self.code = self.code or RoundedCode(self.module)
            if not self.code.changes and not any(rounded(n) != n for n in numbers_of(draw)):
                return none
            with self.code.applied():
                return differing(draw.truth_of_rounded_numbers(), truth)
        except float64_place.Trouble:
            raise
        except Exception as error:  # the reference asserts its numbers, or its code is not what its file contains
            if memory_limit.is_exceeded(error):
                raise
            return none


def numbers_of(draw: Draw) -> Iterator[float]:
    """The numbers of a call, beside its tensors: arguments, and those that a problem's modules keep."""
    model = getattr(draw, "model", None)
    kept = [vars(module).values() for module in model.modules()] if isinstance(model, torch.nn.Module) else []
    for value in leaves([draw.args, getattr(draw, "inputs", ()), *[list(values) for values in kept]]):
        if type(value) is float:
            yield value
