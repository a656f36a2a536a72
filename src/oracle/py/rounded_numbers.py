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
from torch.utils._python_dispatch import TorchDispatchMode

import float64_place
import memory_limit
from draw_base import Draw
from tensor_values import Outputs, leaves, rounded

MOST_WRAPPERS = 8  # of a decorated function
LEAST_EFFECT = 2.0 ** -24  # on an element, as a share of it or of the output's RMS: a smaller one never matters
MOST_EFFECT = 2.0 ** -8  # more is no rounding error


def rounded_within(value: Any) -> Any:
    """A number, or the numbers in nested lists, tuples and dicts, rounded."""
    if type(value) in (list, tuple):
        return type(value)(rounded_within(v) for v in value)
    if type(value) is dict:
        return {k: rounded_within(v) for k, v in value.items()}
    return rounded(value)


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


def namespaces_of(module: ModuleType) -> list[Any]:
    """The module and the classes that it defines, whose variables code may read."""
    found: list[Any] = [module]
    for space in found:  # grows
        for value in list(vars(space).values()):
            if isinstance(value, type) and value.__module__ == module.__name__ and value not in found:
                found.append(value)
    return found


def functions_in(space: Any, module: str) -> Iterator[FunctionType]:
    """The functions of a module or class that the module defines."""
    for value in list(vars(space).values()):
        parts = [value.fget, value.fset] if isinstance(value, property) else [value]
        for part in parts:
            part = part.__func__ if isinstance(part, (classmethod, staticmethod)) else part
            for _ in range(MOST_WRAPPERS):
                inner = vars(part).get("__wrapped__") if isinstance(part, FunctionType) else None
                part = inner if isinstance(inner, FunctionType) else part
            if isinstance(part, FunctionType) and part.__module__ == module:
                yield part


class RoundedCode:
    """The code of a module with rounded numbers."""

    def __init__(self, module: ModuleType) -> None:
        path = str(module.__file__)
        literals = RoundLiterals()
        tree = literals.visit(ast.parse(pathlib.Path(path).read_text(), path))
        codes: dict[tuple[str, int], CodeType | None] = {}
        for code in codes_in(compile(tree, path, "exec", dont_inherit=True)):
            key = (code.co_name, code.co_firstlineno)
            codes[key] = None if key in codes else code  # several on one line: unknown which is which
        self.spaces, self.functions = namespaces_of(module), []
        for function in [f for space in self.spaces for f in functions_in(space, module.__name__)]:
            code = codes.get((function.__code__.co_name, function.__code__.co_firstlineno))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                self.functions.append((function, code))
        self.changes = literals.changes > 0

    def variables(self) -> list[tuple[Any, str, Any]]:
        """Those with numbers that rounding changes: where, name, value."""
        return [(space, name, value) for space in self.spaces for name, value in list(vars(space).items())
                if type(value) in (float, list, tuple, dict) and not name.startswith("__")
                and rounded_within(value) != value]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        functions = [(f, f.__code__, f.__defaults__, f.__kwdefaults__) for f, _ in self.functions]
        variables = self.variables()
        try:
            for function, code in self.functions:
                function.__code__ = code
                function.__defaults__ = rounded_within(function.__defaults__)
                function.__kwdefaults__ = rounded_within(function.__kwdefaults__)
            for space, name, value in variables:
                setattr(space, name, rounded_within(value))
            yield
        finally:
            for space, name, value in variables:
                setattr(space, name, value)
            for function, code, defaults, named in functions:
                function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, named


def attributes_of(model: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """What the modules of a model keep and may contain numbers: where, name, value. Names of PyTorch's own dicts begin
    with an underscore."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if type(value) in (float, tuple, list) or (type(value) is dict and not name.startswith("_")):
                yield vars(module), name, value


def round_attributes(model: torch.nn.Module) -> None:
    """Rounds the numbers that the modules of a model keep."""
    for variables, name, value in attributes_of(model):
        variables[name] = rounded_within(value)


class Decisions(TorchDispatchMode):
    """What a reference decides: its operators, whole numbers among their arguments, shapes, and results that are
    integers. Rounding of numbers must change none of them: int(0.7 * 100) is 69 of the rounded number."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        whole = [a for a in leaves([args, list((kwargs or {}).values())]) if isinstance(a, int)]
        shapes = []
        for tensor in leaves([result]):
            if isinstance(tensor, torch.Tensor):
                exact = not tensor.is_floating_point() and not tensor.is_complex()
                shapes.append((tuple(tensor.shape), int(tensor.long().sum()) if exact else None))
        self.made.append((str(func), whole, shapes))
        return result


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
            if not (self.code.changes or self.code.variables() or any(rounded(n) != n for n in numbers_of(draw))):
                return none
            with self.code.applied(), Decisions() as of_rounded:
                outputs = draw.truth_of_rounded_numbers()
            found = differing(outputs, truth)
            if all(r is None for r in found):
                return none
            with Decisions() as exact:
                draw.truth()
            return found if exact.made == of_rounded.made else none
        except float64_place.Trouble:
            raise
        except Exception as error:
            if memory_limit.is_exceeded(error):
                raise
            # The reference asserts its numbers, for example, or PyTorch compiles it. Then only exact numbers are right.
            return none


def numbers_in(value: Any) -> Iterator[float]:
    """The numbers that rounded_within() rounds."""
    if type(value) is float:
        yield value
    elif type(value) in (list, tuple, dict):
        for inner in value.values() if type(value) is dict else value:
            yield from numbers_in(inner)


def numbers_of(draw: Draw) -> Iterator[float]:
    """The numbers of a call, beside its tensors: arguments, and those that a problem's modules keep."""
    yield from numbers_in([draw.args, getattr(draw, "inputs", [])])
    model = getattr(draw, "model", None)
    if isinstance(model, torch.nn.Module):
        for _, _, value in attributes_of(model):
            yield from numbers_in(value)
