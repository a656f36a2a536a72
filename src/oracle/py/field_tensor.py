# Tensors with elements of finite fields beside real numbers: a reference that gets them computes its results as elements.
# Decisions and choices follow the real numbers. Operators that are not here are decomposed by PyTorch, or not covered.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import field_numbers as field
from field_numbers import Numbers, Residues

aten = torch.ops.aten
Rule = Callable[..., Any]
EQUALS, COMPUTED = "choices among equal numbers", "numbers that it computes without its arguments"


class NotCovered(Exception):
    """An operator that has no rule."""


def as_laid_out(part: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(real.shape, real.stride(), dtype=part.dtype).copy_(part)


class FieldTensor(torch.Tensor):
    """`real`: float64. `residues`: as field_numbers.py."""
    __slots__ = ("exponential", "numbers", "real", "residues")

    @staticmethod
    def __new__(cls: type[FieldTensor], real: torch.Tensor, residues: Residues, numbers: Numbers) -> FieldTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls, real.shape, strides=real.stride(), storage_offset=real.storage_offset(), dtype=real.dtype,
            device=real.device)

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __init__(self, real: torch.Tensor, residues: Residues, numbers: Numbers) -> None:
        # One layout for all: views are made of each part alike.
        self.residues = [r if r.stride() == real.stride() and r.storage_offset() == real.storage_offset()
                         else as_laid_out(r, real) for r in residues]
        self.real, self.numbers = real, numbers
        # The real numbers, and e to the power of these, if that is known.
        self.exponential: tuple[torch.Tensor, FieldTensor] | None = None

    def with_parts(self, f: Callable[[torch.Tensor], torch.Tensor]) -> FieldTensor:
        """What an operator that only moves elements gives."""
        return FieldTensor(f(self.real), [f(r) for r in self.residues], self.numbers)

    @classmethod
    def __torch_dispatch__(cls, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        space, name = func._schema.name.split("::")
        rule = RULES.get(name)
        if rule is not None and (space == "aten" or name in ALSO_PRIMS):
            return rule(func, *args, **kwargs)
        if name.endswith("_") and hasattr(aten, name[:-1]):
            return overwritten(func, args[0], getattr(aten, name[:-1])(*args, **kwargs))
        if func in DECOMPOSITIONS:
            return DECOMPOSITIONS[func](*args, **kwargs)
        if func._can_decompose():
            return func.decompose(*args, **kwargs)
        raise NotCovered("PyTorch's operator %s" % func._schema.name)


ALSO_PRIMS = ("var", "sum", "prod", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "sin", "cos", "erf", "exp2", "log2",
              "reciprocal", "mul", "div")  # whose operators of that name take the same arguments
DECOMPOSITIONS = torch._decomp.decomposition_table
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(f: Rule) -> Rule:
        for name in names:
            RULES[name] = f
        return f
    return register


def real_of(value: Any) -> Any:
    return tree_map(lambda v: v.real if isinstance(v, FieldTensor) else v, value)


def numbers_of(*values: Any) -> Numbers:
    for value in values:
        if isinstance(value, FieldTensor):
            return value.numbers
        if isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, FieldTensor):
                    return item.numbers
    raise NotCovered("a call without elements")


def residues_of(value: Any, numbers: Numbers) -> Residues:
    """Of an operand: a tensor with or without elements, or a number."""
    if isinstance(value, FieldTensor):
        return value.residues
    if isinstance(value, torch.Tensor):
        if not field.has_short_fractions(value):
            numbers.functions.add(COMPUTED)
        return field.of_tensor(value)
    return [torch.tensor(v, dtype=torch.int64) for v in numbers.note(value)]


FACTORIES = ("zeros", "ones", "full", "empty", "empty_strided", "scalar_tensor", "new_zeros", "new_ones", "new_full",
             "new_empty", "new_empty_strided", "zeros_like", "ones_like", "full_like", "empty_like")


class NewTensors(TorchDispatchMode):
    """Gives new tensors elements, so that results can be written into them."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__()
        self.numbers = numbers

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To hide this class from its compiler, PyTorch would import it: seconds."""
        return False

    def __torch_dispatch__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        is_new = name in FACTORIES and isinstance(result, torch.Tensor) and not isinstance(result, FieldTensor)
        if not is_new or not result.is_floating_point():
            return result
        first = result.reshape(-1)[:1].double() if "empty" not in name else torch.zeros(1)
        value = float(first) if first.numel() else 0.0
        residues = self.numbers.note(value) if math.isfinite(value) else [0] * len(field.MODULI)
        real = torch.full(result.shape, value, dtype=torch.float64)
        return FieldTensor(real, [torch.full(real.shape, r, dtype=torch.int64) for r in residues], self.numbers)


def made(real: torch.Tensor, residues: Residues, numbers: Numbers) -> FieldTensor:
    return FieldTensor(real, [r.expand(real.shape) for r in residues], numbers)


@rule("lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite", "argmax", "argmin", "sign", "floor", "ceil",
      "round", "trunc", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
      "new_empty", "rand_like", "equal", "signbit", "argsort", "bitwise_not",
      "logical_not", "is_same_size", "floor_divide", "new_empty_strided", "any", "all", "logical_and")
def plain(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*real_of(args), **real_of(kwargs))


@rule("view", "_unsafe_view", "permute", "t", "transpose", "expand", "unsqueeze", "squeeze", "slice", "select", "clone",
      "alias", "detach", "as_strided", "repeat", "index_select", "gather", "flip", "roll", "diagonal", "tril", "triu",
      "unfold", "lift_fresh", "reshape", "_reshape_alias", "contiguous", "narrow", "movedim", "view_as",
      "index")
def moved(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(tensor, FieldTensor):
        raise NotCovered("an index that is computed")
    args, kwargs = real_of(args), real_of(kwargs)
    result = tensor.with_parts(lambda part: func(part, *args, **kwargs))
    if tensor.exponential is not None and func._schema.name in ("aten::detach", "aten::alias"):
        result.exponential = tensor.exponential  # what autograd saves
    return result


@rule("split", "split_with_sizes", "unbind", "chunk")
def moved_to_many(func: Any, tensor: FieldTensor, *args: Any, **kwargs: Any) -> list[FieldTensor]:
    parts = [func(part, *args, **kwargs) for part in (tensor.real, *tensor.residues)]
    return [FieldTensor(real, list(residues), tensor.numbers) for real, *residues in zip(*parts)]


@rule("cat", "stack")
def joined(func: Any, tensors: Sequence[Any], *args: Any, **kwargs: Any) -> FieldTensor:
    numbers = numbers_of(tensors)
    of_each = [residues_of(t, numbers) for t in tensors]
    real = func([real_of(t).double() for t in tensors], *args, **kwargs)
    return FieldTensor(real, [func([r[i] for r in of_each], *args, **kwargs) for i in range(len(field.MODULI))], numbers)


@rule("_to_copy")
def converted(func: Any, tensor: FieldTensor, **kwargs: Any) -> Any:
    dtype = kwargs.get("dtype")
    if dtype is not None and not dtype.is_floating_point:
        return func(tensor.real, **kwargs)
    return tensor.with_parts(torch.clone)


@rule("zero_", "fill_")
def filled(func: Any, tensor: FieldTensor, value: Any = 0) -> FieldTensor:
    if isinstance(value, FieldTensor):
        return overwritten(func, tensor, value)
    return overwritten(func, tensor, torch.zeros_like(tensor.real) + value)


@rule("copy_")
def overwritten(func: Any, to: Any, source: Any, *args: Any) -> Any:
    if not isinstance(to, FieldTensor):
        raise NotCovered("a tensor without elements that gets some")
    residues = residues_of(source, to.numbers)
    to.real.copy_(real_of(source))
    for part, given in zip(to.residues, residues):
        part.copy_(given)
    return to


@rule("constant_pad_nd")
def padded(func: Any, tensor: FieldTensor, pad: Sequence[int], value: float = 0) -> FieldTensor:
    filled = tensor.numbers.note(value)
    return FieldTensor(func(tensor.real, pad, value), [func(r, pad, v) for r, v in zip(tensor.residues, filled)],
                       tensor.numbers)


@rule("embedding")
def looked_up(func: Any, weight: FieldTensor, indices: Any, *args: Any, **kwargs: Any) -> FieldTensor:
    return weight.with_parts(lambda part: part[real_of(indices)])


@rule("where", "masked_fill")
def selected(func: Any, *args: Any) -> FieldTensor:
    condition, a, b = args if func._schema.name == "aten::where" else (args[1], args[2], args[0])
    numbers, condition = numbers_of(a, b), real_of(condition)
    one, other = residues_of(a, numbers), residues_of(b, numbers)
    real = torch.where(condition, real_of(a), real_of(b)).double()
    return made(real, [torch.where(condition, x, y) for x, y in zip(one, other)], numbers)


def scaled(value: Any, factor: Any, numbers: Numbers) -> Any:
    return value if factor == 1 else field.mul(value, residues_of(factor, numbers))


@rule("add", "sub", "rsub")
def summed_up(func: Any, a: Any, b: Any, alpha: Any = 1) -> FieldTensor:
    numbers, name = numbers_of(a, b), func._schema.name
    if name == "aten::rsub":
        a, b = b, a
    other = scaled(residues_of(b, numbers), alpha, numbers)
    residues = (field.add if name == "aten::add" else field.sub)(residues_of(a, numbers), other)
    term = real_of(b) * alpha
    return made(real_of(a) + term if name == "aten::add" else real_of(a) - term, residues, numbers)


@rule("mul")
def multiplied(func: Any, a: Any, b: Any) -> FieldTensor:
    numbers = numbers_of(a, b)
    return made(real_of(a) * real_of(b), field.mul(residues_of(a, numbers), residues_of(b, numbers)), numbers)


@rule("div")
def divided(func: Any, a: Any, b: Any, *, rounding_mode: str | None = None) -> FieldTensor:
    if rounding_mode is not None:
        raise NotCovered("a division that rounds")
    numbers = numbers_of(a, b)
    residues = field.mul(residues_of(a, numbers), field.inverse(residues_of(b, numbers)))
    return made(real_of(a) / real_of(b), without(infinite(real_of(b)), residues), numbers)


def infinite(real: Any) -> torch.Tensor:
    return torch.as_tensor(real).isinf()


def without(places: torch.Tensor, residues: Residues) -> Residues:
    """A quotient by an infinite number is zero."""
    return [torch.where(places, 0, r) for r in residues] if bool(places.any()) else residues


def unary(name: str, real: Callable[[torch.Tensor], torch.Tensor],
          residues: Callable[[FieldTensor], Residues]) -> None:
    def apply(func: Any, tensor: FieldTensor) -> FieldTensor:
        return FieldTensor(real(tensor.real), residues(tensor), tensor.numbers)
    RULES[name] = apply


def exponential(tensor: FieldTensor) -> Residues:
    known = tensor.exponential
    if known is not None and torch.equal(tensor.real, known[0]):  # not changed in place since
        return known[1].residues
    exponents = field.mul(tensor.residues, [torch.tensor(v) for v in tensor.numbers.log2e])
    return without_infinite(tensor, field.exp2(tensor.numbers.seed, exponents, tensor.real * math.log2(math.e)))


def without_infinite(tensor: FieldTensor, powers: Residues) -> Residues:
    nothing = tensor.real == -math.inf
    return [r.masked_fill(nothing, 0) for r in powers]


def root_of(tensor: FieldTensor) -> Residues:
    tensor.numbers.functions.add("square roots")
    return field.sqrt(tensor.residues)


def known_function(name: str, f: Callable[[int, Residues], Residues]) -> Callable[[FieldTensor], Residues]:
    """Of which not all laws are known."""
    def residues(tensor: FieldTensor) -> Residues:
        tensor.numbers.functions.add(name)
        return f(tensor.numbers.seed, tensor.residues)
    return residues


logarithm = known_function("log", field.log2)


def natural(tensor: FieldTensor) -> Residues:
    return field.mul(logarithm(tensor), residues_of(math.log(2), tensor.numbers))


unary("neg", torch.neg, lambda t: field.neg(t.residues))
unary("reciprocal", torch.reciprocal, lambda t: without(infinite(t.real), field.inverse(t.residues)))
unary("sqrt", torch.sqrt, root_of)
unary("rsqrt", torch.rsqrt, lambda t: field.inverse(root_of(t)))
unary("exp", torch.exp, exponential)
unary("exp2", torch.exp2, lambda t: without_infinite(t, field.exp2(t.numbers.seed, t.residues, t.real)))
unary("log2", torch.log2, logarithm)
unary("log", torch.log, natural)
unary("sin", torch.sin, known_function("sin", lambda seed, a: field.odd(seed, field.SIN, a)))
unary("cos", torch.cos, known_function("cos", lambda seed, a: field.hashed_size(seed, field.COS, a)))
unary("erf", torch.erf, known_function("erf", lambda seed, a: field.odd(seed, field.ERF, a)))
unary("abs", torch.abs, lambda t: [torch.where(torch.signbit(t.real), n, r)
                                   for n, r in zip(field.neg(t.residues), t.residues)])


@rule("relu")
def rectified(func: Any, tensor: FieldTensor) -> FieldTensor:
    note_equals(tensor.real == 0, tensor.numbers)
    return FieldTensor(torch.relu(tensor.real), [r.masked_fill(tensor.real <= 0, 0) for r in tensor.residues],
                       tensor.numbers)


@rule("expm1")
def exponential_less_one(func: Any, tensor: FieldTensor) -> FieldTensor:
    return torch.exp(tensor) - 1


@rule("log1p")
def logarithm_of_one_more(func: Any, tensor: FieldTensor) -> FieldTensor:
    return torch.log(tensor + 1)


@rule("sigmoid")
def logistic(func: Any, tensor: FieldTensor) -> FieldTensor:
    return 1 / (torch.exp(-tensor) + 1)


@rule("tanh")
def hyperbolic_tangent(func: Any, tensor: FieldTensor) -> FieldTensor:
    return 1 - 2 / (torch.exp(tensor * 2) + 1)


@rule("pow")
def raised(func: Any, base: Any, exponent: Any) -> FieldTensor:
    if isinstance(exponent, torch.Tensor) or not isinstance(base, FieldTensor):
        raise NotCovered("a power whose exponent is a tensor")
    if float(exponent).is_integer() and abs(exponent) <= 64:
        power = torch.ones_like(base.real) + base * 0
        for _ in range(abs(int(exponent))):
            power = power * base
        return power if exponent >= 0 else torch.reciprocal(power)
    if exponent == 0.5:
        return torch.sqrt(base)
    if exponent == -0.5:
        return torch.rsqrt(base)
    raise NotCovered("a power of %g" % exponent)


@rule("maximum", "minimum")
def chosen(func: Any, a: Any, b: Any) -> FieldTensor:
    note_equals(real_of(a) == real_of(b), numbers_of(a, b))
    first = real_of(a) >= real_of(b) if func._schema.name == "aten::maximum" else real_of(a) <= real_of(b)
    return torch.where(first, a, b)


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def clamped(func: Any, tensor: FieldTensor, low: Any = None, high: Any = None, *rest: Any, **kwargs: Any) -> Any:
    name = func._schema.name
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    if name == "aten::clamp_max":
        low, high = None, low if high is None else high
    if name == "aten::hardtanh":
        low, high = -1 if low is None else low, 1 if high is None else high
    for bound in (low, high):
        if bound is not None:
            note_equals(tensor.real == real_of(bound), tensor.numbers)
    if low is not None:
        tensor = torch.where(tensor.real < real_of(low), low, tensor)
    if high is not None:
        tensor = torch.where(tensor.real > real_of(high), high, tensor)
    return tensor


@rule("sum")
def total(func: Any, tensor: FieldTensor, *args: Any, **kwargs: Any) -> FieldTensor:
    kwargs.pop("dtype", None)
    return FieldTensor(func(tensor.real, *args, **kwargs),
                       field.each(lambda m, r: func(r, *args, **kwargs) % m, tensor.residues), tensor.numbers)


@rule("im2col", "col2im")
def in_columns(func: Any, tensor: FieldTensor, *args: Any) -> FieldTensor:
    residues = field.linear(lambda part: func(part, *args), tensor.residues)
    return FieldTensor(func(tensor.real, *args), residues, tensor.numbers)


@rule("cumsum")
def running_total(func: Any, tensor: FieldTensor, dim: int, *, dtype: Any = None) -> FieldTensor:
    return FieldTensor(func(tensor.real, dim), field.each(lambda m, r: func(r, dim) % m, tensor.residues),
                       tensor.numbers)


@rule("mean")
def average(func: Any, tensor: FieldTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> FieldTensor:
    sums = torch.sum(tensor) if dim is None else torch.sum(tensor, dim, keepdim)
    return sums / (tensor.numel() / max(sums.numel(), 1))


def note_equals(found: torch.Tensor, numbers: Numbers) -> None:
    """Of equal numbers, a kernel may choose another one, which has another element."""
    if bool(found.any()):
        numbers.functions.add(EQUALS)


def note_repeated(real: torch.Tensor, numbers: Numbers) -> None:
    """The same where it is not known which numbers are compared."""
    if torch.unique(real).numel() < real.numel():
        numbers.functions.add(EQUALS)


def extreme(func: Any, tensor: FieldTensor, dim: Any, keepdim: bool, largest: bool) -> tuple[FieldTensor, torch.Tensor]:
    best = (torch.max if largest else torch.min)(tensor.real, dim, True)
    indices = best.indices
    note_equals((tensor.real == best.values).sum(dim) > 1, tensor.numbers)
    found = tensor.with_parts(lambda part: part.gather(dim, indices))
    if keepdim:
        return found, indices
    return found.with_parts(lambda part: part.squeeze(dim)), indices.squeeze(dim)


@rule("amax", "amin", "max", "min")
def extremes(func: Any, tensor: FieldTensor, dim: Any = None, keepdim: bool = False) -> Any:
    name = func._schema.name
    largest = name.endswith("max")
    if isinstance(dim, torch.Tensor):
        return (torch.maximum if largest else torch.minimum)(tensor, dim)
    if name in ("aten::max", "aten::min"):
        if dim is None:
            return extreme(func, torch.reshape(tensor, (-1,)), 0, False, largest)[0]
        return extreme(func, tensor, dim, keepdim, largest)
    dims = [d % tensor.dim() for d in (dim if isinstance(dim, (list, tuple)) else [dim])] or list(range(tensor.dim()))
    for d in sorted(dims, reverse=True):
        tensor = extreme(func, tensor, d, keepdim, largest)[0]
    return tensor


@rule("sort", "topk")
def ranked(func: Any, tensor: FieldTensor, *args: Any, **kwargs: Any) -> Any:
    values, indices = func(tensor.real, *args, **kwargs)
    names = [a.name for a in func._schema.arguments][1:]
    place = {**dict(zip(names, args)), **kwargs}.get("dim", -1)
    note_repeated(tensor.real, tensor.numbers)
    return tensor.with_parts(lambda part: part.gather(place, indices)), indices


@rule("_softmax")
def softmax(func: Any, tensor: FieldTensor, dim: int, half_to_float: bool = False) -> FieldTensor:
    e = torch.exp(tensor - torch.amax(tensor, dim, True))
    return e / torch.sum(e, dim, True)


@rule("_log_softmax")
def log_softmax(func: Any, tensor: FieldTensor, dim: int, half_to_float: bool = False) -> FieldTensor:
    shifted = tensor - torch.amax(tensor, dim, True)
    powers = torch.exp(shifted)
    sums = torch.sum(powers, dim, True)
    result = shifted - torch.log(sums)
    result.exponential = (result.real.clone(), powers / sums)
    return result


@rule("mm", "bmm", "dot", "mv")
def product(func: Any, a: Any, b: Any, *rest: Any) -> FieldTensor:
    numbers = numbers_of(a, b)
    residues = field.bilinear(lambda x, y: func(x, y, *rest), residues_of(a, numbers), residues_of(b, numbers))
    return FieldTensor(func(real_of(a), real_of(b), *rest), residues, numbers)


@rule("addmm", "baddbmm", "addmv")
def product_and_sum(func: Any, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> FieldTensor:
    name = func._schema.name
    multiply = aten.mm if name == "aten::addmm" else aten.bmm if name == "aten::baddbmm" else aten.mv
    return multiply(a, b) * alpha + c * beta


@rule("convolution")
def convolved(func: Any, x: Any, w: Any, bias: Any, *rest: Any) -> FieldTensor:
    result = product(lambda a, b, *r: func(a, b, None, *r), x, w, *rest)
    if bias is None:
        return result
    return result + torch.reshape(bias, (1, -1) + (1,) * (result.dim() - 2))


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d")
def max_pooled(func: Any, tensor: FieldTensor, *args: Any, **kwargs: Any) -> Any:
    values, indices = func(tensor.real, *args, **kwargs)
    note_repeated(tensor.real, tensor.numbers)
    spatial = values.dim() - tensor.dim() + (2 if "2d" in func._schema.name else 3)
    flat = tensor.with_parts(lambda part: part.flatten(-spatial).gather(-1, indices.flatten(-spatial)).view(values.shape))
    return flat, indices


@rule("avg_pool2d", "avg_pool3d")
def average_pooled(func: Any, tensor: FieldTensor, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
                   count_pad: bool = True, divisor: int | None = None) -> FieldTensor:
    def sums(part: torch.Tensor) -> torch.Tensor:
        return func(part, size, stride, padding, ceil, True, 1)
    ones = torch.ones_like(tensor.real)
    counts = (sums(ones) / func(ones, size, stride, padding, ceil, count_pad, divisor)).round()
    result = FieldTensor(sums(tensor.real), field.linear(sums, tensor.residues), tensor.numbers)
    return result / counts


@rule("prod", "cumprod")
def multiplied_along(func: Any, tensor: FieldTensor, dim: Any = None, keepdim: Any = False, **kwargs: Any) -> FieldTensor:
    if isinstance(dim, (list, tuple)):
        dim = dim[0] if len(dim) == 1 else None
    if dim is None:
        tensor, dim = torch.reshape(tensor, (-1,)), 0
    so_far = [torch.select(tensor, dim, 0)]
    for i in range(1, tensor.shape[dim]):
        so_far.append(so_far[-1] * torch.select(tensor, dim, i))
    if func._schema.name.endswith("cumprod"):
        return torch.stack(so_far, dim)
    return torch.unsqueeze(so_far[-1], dim) if keepdim is True else so_far[-1]


def variance(tensor: FieldTensor, dims: Any, correction: Any, keepdim: bool) -> tuple[FieldTensor, FieldTensor]:
    dims = list(range(tensor.dim())) if dims is None or dims == [] else dims
    means = torch.mean(tensor, dims, True)
    count = tensor.numel() // max(means.numel(), 1)
    squares = torch.sum(torch.square(tensor - means), dims, keepdim)
    return squares / (count - (1 if correction is None else correction)), torch.mean(tensor, dims, keepdim)


@rule("var", "std", "var_mean", "std_mean")
def spread(func: Any, tensor: FieldTensor, dims: Any = None, unbiased: Any = None, keepdim: bool = False, *,
           correction: Any = None, output_dtype: Any = None) -> Any:
    if isinstance(dims, bool):  # var(x, unbiased)
        dims, unbiased = None, dims
    if unbiased is not None and correction is None:
        correction = int(unbiased)
    result, means = variance(tensor, dims, correction, keepdim)
    name = func._schema.name.split("::")[1]
    if name.startswith("std"):
        result = torch.sqrt(result)
    return (result, means) if name.endswith("mean") else result


@rule("scatter_add", "index_add", "scatter", "index_put")
def scattered(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> FieldTensor:
    numbers, name = numbers_of(tensor, *args), func._schema.name.split("::")[1]
    if kwargs.get("reduce") or kwargs.get("alpha", 1) != 1:
        raise NotCovered("PyTorch's operator %s with these options" % name)
    place = 1 if name == "index_put" else 2  # of the numbers that are written
    plain_args = list(real_of(args))

    def one(m: int, target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        given = list(plain_args)
        given[place] = source if isinstance(args[place], torch.Tensor) else int(source)
        return func(target, *given) % m
    residues = field.each(one, residues_of(tensor, numbers), residues_of(args[place], numbers))
    return FieldTensor(func(real_of(tensor).double(), *plain_args), residues, numbers)


@rule("convolution_backward")
def convolved_backward(func: Any, grad: Any, x: Any, w: Any, sizes: Any, *rest: Any) -> Any:
    *settings, wanted = rest
    numbers = numbers_of(grad, x, w)

    def part(index: int, other: Any) -> FieldTensor:
        mask = [i == index for i in range(3)]

        def one(g: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
            given = (real_of(x), o) if index == 0 else (o, real_of(w))
            return func(g, given[0].double(), given[1].double(), sizes, *settings, mask)[index]
        residues = field.bilinear(one, residues_of(grad, numbers), residues_of(other, numbers))
        return FieldTensor(one(real_of(grad), real_of(other)), residues, numbers)
    return (part(0, w) if wanted[0] else None, part(1, x) if wanted[1] else None,
            torch.sum(grad, [0, *range(2, grad.dim())]) if wanted[2] else None)


@rule("max_pool2d_with_indices_backward")
def max_pooled_backward(func: Any, grad: FieldTensor, tensor: Any, *rest: Any) -> FieldTensor:
    real = real_of(tensor)
    return FieldTensor(func(grad.real, real, *rest), field.linear(lambda g: func(g, real, *rest), grad.residues),
                       grad.numbers)


@rule("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
      "_scaled_dot_product_attention_math")
def attention(func: Any, q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    name = func._schema.name
    names = [a.name for a in func._schema.arguments if not a.kwarg_only][3:]
    given = {**dict(zip(names, args)), **kwargs}
    scale = given.get("scale") or 1 / math.sqrt(q.shape[-1])
    if given.get("enable_gqa") or k.shape[1] != q.shape[1]:
        k = torch.repeat_interleave(k, q.shape[1] // k.shape[1], 1)
        v = torch.repeat_interleave(v, q.shape[1] // v.shape[1], 1)
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if given.get("is_causal"):
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(mask, scores, -math.inf)
    mask = given.get("attn_mask")
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype is torch.bool else scores + mask
    result = torch.matmul(torch.softmax(scores, -1), v)
    return result if name == "aten::scaled_dot_product_attention" else (result, torch.zeros(()))
