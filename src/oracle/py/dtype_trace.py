# The types of a reference's tensors, call by call. In the float64 run (float64_truth.py) every tensor is float64,
# so `x.dtype`, torch.finfo(x.dtype) and `y.to(x.dtype)` would mean something else there. PyTorch's own run
# records the types, and the float64 run repeats them: `x.dtype` gives the type that PyTorch's own run had,
# and what was rounded to float8 keeps all its digits but saturates as float8 does. In the same way `x.is_cuda`
# and `x.device` give the CPU, where PyTorch's own run was, so that both runs do the same. It also records what is
# rounded to integers (rounding_ties.py), which elements are named as the largest (equal_choices.py) or are ranked
# (rankings.py), and which of the call's numbers are converted to integers (carried_integers.py).
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import equal_choices
import float8
import rankings
import rounding_ties
from carried_integers import Carried


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in tensors(item)]


def results(result: Any, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The tensors that a call returns, or the one that a call without a result writes: `x[i] = y`."""
    return tensors(args[:1]) if result is None else tensors(result)


# Calls that say where a tensor is.
PLACES = (torch.Tensor.is_cuda.__get__, torch.Tensor.is_cpu.__get__, torch.Tensor.get_device, torch.get_device)


def tells_place(function: Callable[..., Any], result: Any) -> bool:
    return function in PLACES or isinstance(result, torch.device)


# How `with torch.no_grad():` is entered and left, also by an exception. No mode may keep it from that.
SETS_STATE = (torch._C._set_grad_enabled,)
# Calls that sum products.
PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "vdot", "inner", "addmm", "addmm_", "addmv",
            "addbmm", "baddbmm", "baddbmm_", "linear", "bilinear", "einsum", "tensordot", "chain_matmul", "multi_dot",
            "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
            "scaled_dot_product_attention", "multi_head_attention_forward"}


class Call:
    """One call of PyTorch. `answer`: what it returned, if this was a type or where a tensor is. `rounded`: the float8
    types of its results, if it rounded to them, else empty. `rounding`: if it rounded to integers. `choice`: if it
    named elements. `ranking`: if it ranked them."""
    __slots__ = ("answer", "choice", "function", "ranking", "rounded", "rounding")

    def __init__(self, function: Callable[..., Any], given: list[torch.dtype], result: Any,
                 made: list[torch.dtype], rounding: rounding_ties.Rounding | None = None,
                 choice: equal_choices.Choice | None = None, ranking: rankings.Ranking | None = None) -> None:
        """`given`, `made`: types of the floating-point tensors that it got and of its results."""
        self.function, self.rounding, self.choice, self.ranking = function, rounding, choice, ranking
        self.answer = result if isinstance(result, torch.dtype) or tells_place(function, result) else None
        small = [t if float8.is_float8(t) and any(g != t for g in given or (None,)) else None for t in made]
        self.rounded = tuple(small) if any(small) else ()


class Trace:
    """The calls of one run. Not reentrant."""

    def __init__(self) -> None:
        self.calls = []
        self.carried = Carried()
        self.direction = 0  # where float64 runs move numbers that lie within rounding of a tie; 0: nowhere
        self.observes = False  # whether a float64 run of moved inputs shows which of these numbers depend on inputs
        self.near_ties = False  # whether such a run has found one
        self.named: int | None = None  # which of equal elements float64 runs name; None: PyTorch's choice
        self.watches_ranks = False  # whether a float64 run shows which elements it ranks
        self.equals = 0  # how many equal elements a row has at most, as such a run has found

    @property
    def rounds_to_float8(self) -> bool:
        return any(call.rounded for call in self.calls)

    @property
    def has_products(self) -> bool:
        return any(rounding_ties.name_of(call.function) in PRODUCTS for call in self.calls)

    def record(self, given: Any = ()) -> Record:
        """The context of PyTorch's own run, which gets the tensors in `given`."""
        self.calls = []
        self.carried.watch(tensors(given))
        return Record(self)

    def repeat(self) -> Repeat:
        """The context of a float64 run of the same code."""
        return Repeat(self)


class Record(TorchFunctionMode):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.calls, self.carried = trace.calls, trace.carried

    def __exit__(self, *error: Any) -> None:
        self.carried.stop()
        super().__exit__(*error)

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if function in SETS_STATE:
            return function(*args, **kwargs)
        given = [t.dtype for t in tensors((args, kwargs)) if t.is_floating_point()]
        rounding = rounding_ties.before_call(function, args, kwargs)
        choice = equal_choices.before_call(function, args, kwargs)
        ranking = rankings.before_call(function, args, kwargs)
        result = function(*args, **kwargs)
        rounding = rounding or rounding_ties.after_call(function, args, result)
        self.carried.note(function, args, result)
        made = [t.dtype for t in results(result, args)]
        for dtype in made:
            if dtype.is_floating_point and dtype.itemsize == 1 and not float8.is_float8(dtype):
                raise NotImplementedError("unsupported: the reference computes with %s, which cupel does not "
                                          "support" % str(dtype).replace("torch.", ""))
        self.calls.append(Call(function, given, result, made, rounding, choice, ranking))
        return result


class Repeat(TorchFunctionMode):
    """If the code makes other calls than in PyTorch's own run, because a value decides, the remaining calls
    are not changed. Raises NotImplementedError then, if types matter to one of them, or if the code asks about a
    tensor on a GPU where it is."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace, self.calls, self.done = trace, trace.calls, 0

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if function in SETS_STATE:
            return function(*args, **kwargs)
        call = self.calls[self.done] if self.done < len(self.calls) else None
        if call is None or call.function != function:
            self.give_up()
            result = function(*args, **kwargs)
            if tells_place(function, result) and any(tensor.is_cuda for tensor in tensors(args[:1])):
                raise NotImplementedError("unsupported: after a decision by a value, the reference asks where its "
                                          "tensors are")
            return result
        self.done += 1
        if call.answer is not None:
            return call.answer
        if call.rounding is not None and self.trace.observes:
            call.rounding.observe(args[0])
        if call.rounding is not None and self.trace.direction != 0:
            args = self.leaning(call, args)
        result = function(*args, **kwargs)
        if call.choice is not None and self.trace.named is not None:
            result = self.naming(call, args[0] if args else kwargs["input"], result)
        if call.ranking is not None and self.trace.watches_ranks:
            call.ranking.observe(args[0] if args else kwargs["input"], result)
        if not call.rounded:
            return result
        made = results(result, args)
        if result is made[0] and all(result is not t for t in tensors((args, kwargs))):
            return Replaced.apply(result, float8.held(result.detach(), call.rounded[0]))
        for tensor, dtype in zip(made, call.rounded):
            if dtype is not None:
                with torch.no_grad():
                    tensor.copy_(float8.held(tensor.detach(), dtype))
        return result

    def leaning(self, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
        moved = call.rounding.leaning(args[0], self.trace.direction)
        if moved is None:
            return args
        self.trace.near_ties = True
        if not rounding_ties.name_of(call.function).endswith("_"):
            return (moved,) + args[1:]
        with torch.no_grad():
            args[0].copy_(moved)  # the call changes its operand
        return args

    def naming(self, call: Call, operand: torch.Tensor, result: Any) -> Any:
        chosen = call.choice.chosen(operand, result, self.trace.named)
        if chosen is None:
            return result
        self.trace.equals = max(self.trace.equals, chosen[1])
        return chosen[0]

    def give_up(self) -> None:
        rest, self.calls = self.calls[self.done:], ()
        if any(isinstance(call.answer, torch.dtype) or call.rounded for call in rest):
            raise NotImplementedError("unsupported: the reference decides by a value what it computes, "
                                      "and also by the type of a tensor or rounds to float8")


class Replaced(torch.autograd.Function):
    """Other values with the gradient of the first: rounding passes gradients on."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return others.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None
