# One call of the backward function of a task folder.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

import cuda_on_cpu
from delivered import Layout, gradient_of
from draw_base import Captured, Draw, FolderTask
from float64_place import Cpu
from float64_truth import in_float64
from oracle_types import Json
from task_code import no_random_numbers, output_list
from task_error import TaskError
from tensor_values import (
    Change,
    Noise,
    Outputs,
    cloned,
    detached,
    flushed,
    is_float,
    leaves,
    step_of,
    tree_map,
    unchanged,
)

MAX_GRADIENTS = 16  # sizes of sentinel tuples tried for backward_fn's result


class Context:
    """A replacement for the ctx that autograd passes to Function.forward and Function.backward."""

    def __init__(self, count: int) -> None:
        self.saved_tensors = ()
        self.needs_input_grad = (True,) * count

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        self.saved_tensors = tensors

    @property
    def saved_variables(self) -> tuple[torch.Tensor | None, ...]:
        return self.saved_tensors

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        pass

    def mark_dirty(self, *tensors: torch.Tensor) -> None:
        pass

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


def storages(value: Any) -> set[int]:
    """The addresses of the tensors' storages: a view has that of its base."""
    return {v.untyped_storage().data_ptr() for v in leaves(value) if isinstance(v, torch.Tensor)}


class Sentinel:
    """A placeholder for one result of backward_fn, to find where `backward` returns it."""


def recorder(calls: list[tuple[Any, ...]], result: Sentinel | tuple[Sentinel, ...]) -> Callable[..., Any]:
    """A backward_fn that appends its arguments to `calls` and returns `result`."""
    def record(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TaskError("backward passes keyword arguments to backward_fn")
        calls.append(args)
        return result
    return record


class BackwardTask(FolderTask, Protocol):
    autograd: type[torch.autograd.Function]

    def gradient_layouts(self, init: Json, inputs: Json) -> list[Layout | None]:
        """Of the function's results, as delivered.py."""


class BackwardDraw(Draw):
    """robust-kbench backward: the arguments that AutogradFunction.backward passes to backward_fn."""

    def __init__(self, task: BackwardTask, init: Json, inputs: Json, answer: bool = True) -> None:
        super().__init__()
        self.function = task.function
        self.inputs = tree_map(task.spread, self.capture_forward(task, init, inputs))
        context = Context(len(self.inputs))
        self.autograd = task.autograd
        output = self.run_forward(task.autograd, context, tree_map(detached, self.inputs))
        outputs, self.many = output_list(output)
        delivered = task.gradient_layouts(init, inputs)
        layouts = [*delivered, *[None] * (len(outputs) - len(delivered))]
        self.grads = [None if o is None or not o.is_floating_point() else gradient_of(o, layout, task.spread)
                      for o, layout in zip(outputs, layouts)]
        self.wanted = self.capture_backward(task.autograd, context)
        names = list(inspect.signature(self.function).parameters)
        self.names = [
            "no gradient" if i is None else
            "gradient of %s" % (names[i] if i < len(names) else "input %d" % i)
            for i in self.wanted]

    def gets_results(self) -> bool:
        """True if the candidate gets numbers that the forward computed and rounded."""
        known = storages((self.inputs, self.grads))
        return any(is_float(v) and v.numel() > 0 and not storages(v) <= known for v in leaves(self.args))

    def capture_forward(self, task: BackwardTask, init: Json, inputs: Json) -> tuple[Any, ...]:
        seen = []

        def record(*args: Any, **kwargs: Any) -> NoReturn:
            seen.append(inspect.signature(self.function).bind(*args, **kwargs).args)
            raise Captured()

        with torch.no_grad():
            model, arguments = task.build(init, inputs)
            self.model, self.model_inputs = model, arguments
            with contextlib.suppress(Captured):
                model(*arguments, fn=record)
        if not seen:
            raise TaskError("Model.forward never calls fn")
        return tuple(tree_map(detached, a) for a in seen[0])

    def run_forward(self, autograd: type[torch.autograd.Function], context: Context, args: Sequence[Any]) -> Any:
        with torch.no_grad(), no_random_numbers():
            if autograd.setup_context is not torch.autograd.Function.setup_context:
                output = autograd.forward(*args)
                autograd.setup_context(context, args, output)
                return output
            return autograd.forward(context, *args)

    def capture_backward(self, autograd: type[torch.autograd.Function], context: Context) -> list[int | None]:
        """Makes backward_fn return one sentinel, then tuples of sentinels, until backward accepts them.
        Returns, for each result of backward_fn, the index of the input whose gradient it is."""
        error = None
        for count in range(MAX_GRADIENTS + 1):
            sentinels = tuple(Sentinel() for _ in range(max(count, 1)))
            try:
                args, result = self.call_backward(autograd, context, self.grads, sentinels if count else sentinels[0])
            except TaskError:
                raise
            except Exception as e:  # the wrong number of sentinels, or a task that computes with
                error = e           # backward_fn's results
                continue
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            extra = result[len(self.inputs):]
            if len(result) < len(self.inputs) or any(r is not None for r in extra):
                error = error or TaskError("backward returns %d gradients for %d inputs" %
                                           (len(result), len(self.inputs)))
                continue
            self.args, self.answer = tuple(tree_map(detached, a) for a in args), sentinels if count else sentinels[0]
            self.is_tuple = count > 0
            places = [next((i for i, r in enumerate(result) if r is s), None) for s in sentinels]
            if all(p is None for p in places):
                raise TaskError("backward does not return what backward_fn computes")
            return places
        raise TaskError("cannot find the number of results of backward_fn: none up to %d works (%s)" %
                        (MAX_GRADIENTS, error))

    def call_backward(self, autograd: type[torch.autograd.Function], context: Context, grads: Sequence[Any],
                      answer: Any) -> tuple[tuple[Any, ...], Any]:
        """The arguments of backward_fn, whose result is `answer`, and what backward returns."""
        calls = []
        before = autograd.backward_fn if hasattr(autograd, "backward_fn") else None
        autograd.backward_fn = recorder(calls, answer)
        try:
            with torch.no_grad():
                result = autograd.backward(context, *(grads if self.many else grads[:1]))
        finally:
            autograd.backward_fn = before
        if len(calls) != 1:
            raise TaskError("backward calls backward_fn %d times; a case is one call" % len(calls))
        return calls[0], result

    def arguments_of(self, inputs: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """What backward_fn gets for these inputs of the forward function and these gradients of its results."""
        context = Context(len(inputs))
        self.run_forward(self.autograd, context, inputs)
        return self.call_backward(self.autograd, context, grads, self.answer)[0]

    def gradients(self, inputs: Sequence[Any], grads: Sequence[torch.Tensor | None]) -> Outputs:
        """autograd's gradients of the wanted inputs."""
        inputs = list(inputs)
        for i in {i for i in self.wanted if i is not None}:
            if not is_float(inputs[i]):
                raise TaskError("backward returns a gradient for input %d, which is not a floating-point "
                                "tensor" % i)
            inputs[i] = inputs[i].detach().requires_grad_(True)
        with torch.enable_grad():
            result = self.function(*inputs)
            outputs = list(result) if isinstance(result, (list, tuple)) else [result]
            pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
            order = sorted({i for i in self.wanted if i is not None})
            if not pairs:
                raise TaskError("no output of forward_fn depends on an input that needs a gradient")
            found = torch.autograd.grad([o for o, _ in pairs], [inputs[i] for i in order],
                                        [g for _, g in pairs], allow_unused=True)
        by_input = {i: torch.zeros_like(inputs[i]) if g is None else g.detach()
                    for i, g in zip(order, found)}
        return [None if i is None else by_input[i] for i in self.wanted]

    def reference(self) -> Outputs:
        if not self.outputs:
            inputs = tree_map(cloned, self.inputs)
            with cuda_on_cpu.OnCpu(), self.trace.record(inputs):
                self.outputs = self.gradients(inputs, self.grads)
        return self.outputs

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        inputs = self.doubles(self.inputs, noise, place)
        grads = self.doubles(self.grads, noise, place, are_given=False)
        moved = self.moved_results((inputs, grads), noise)  # before the trace repeats: its calls are not the reference's
        with place.reference(), in_float64(), self.trace.repeat(), moved:
            return self.gradients(inputs, grads)

    def moved_results(self, given: Any, noise: Noise | Change | None) -> contextlib.AbstractContextManager[Any]:
        """Moves also what autograd saves of intermediate results: the candidate gets them rounded, which may move its
        result further than the rounding of the forward's inputs. Only for errors of rounding: larger moves search for
        inputs at which the gradient jumps."""
        rounds = noise is flushed or (isinstance(noise, Noise) and noise.relative is None)
        if not rounds or not self.gets_results():
            return contextlib.nullcontext()
        known = storages(given)
        steps = [v.dtype for v in leaves(self.args) if is_float(v)]
        widest = max(steps, key=step_of)

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or storages(tensor) <= known:
                return tensor
            with _disable_current_modes():  # the trace repeats only the reference's own calls
                return flushed(tensor) if noise is flushed else tensor * noise.factors(tensor, widest)
        return torch.autograd.graph.saved_tensors_hooks(moved, unchanged)
