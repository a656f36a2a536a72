# The layouts of the gradients that autograd delivers to a task's function: if the module adds up what the function
# returns, its gradient is one number with strides of zero. Found by one run of the module with autograd.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import float8
from task_code import output_list

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, strides


@contextlib.contextmanager
def same_random_numbers() -> Iterator[None]:
    """Leaves the generators as they are."""
    python = random.getstate()
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(python)


def delivered_layouts(build: Callable[[], tuple[torch.nn.Module, Sequence[Any]]],
                      function: Callable[..., Any]) -> list[Layout | None]:
    """For each result of the function its gradient's layout; None if that is contiguous, or not known. Empty if
    the module returns the results as they are."""
    made, found = [], {}

    def note(i: int, gradient: torch.Tensor) -> None:
        found[i] = tuple(gradient.shape), tuple(gradient.stride())

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        made.extend(output_list(result)[0])
        for i, tensor in enumerate(made):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(functools.partial(note, i))
        return result

    try:
        with same_random_numbers(), torch.enable_grad():
            module, arguments = build()
            arguments = [a.detach().requires_grad_(True) if isinstance(a, torch.Tensor) and a.is_floating_point()
                         else a for a in arguments]
            results = [r for r in output_list(module(*arguments, fn=watched))[0]
                       if isinstance(r, torch.Tensor) and r.requires_grad]
            if all(any(r is m for m in made) for r in results):
                return []
            torch.autograd.backward(results, [torch.randn(r.shape).to(r.dtype) for r in results])
    except Exception:  # a module that does not work so has no other way to show it
        return []
    return [found.get(i) for i in range(len(made))]


def gradient_of(output: torch.Tensor, layout: Layout | None, spread: Callable[[Any], Any]) -> torch.Tensor:
    """A random gradient of a result. `spread` replaces its numbers, once for all places of each."""
    if layout is None or layout[0] != tuple(output.shape):
        return spread(float8.like(output, torch.randn(output.shape)))
    shape, strides = layout
    own = [1 if stride == 0 else size for size, stride in zip(shape, strides)]
    gradient = spread(float8.like(output.new_empty(own), torch.randn(own))).expand(shape)
    if 0 in strides or gradient.stride() == strides:
        return gradient
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    return torch.zeros(extent, dtype=gradient.dtype).as_strided(shape, strides).copy_(gradient)
