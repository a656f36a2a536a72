# Runs a module without computing, on tensors that have shapes but no data. Finds the cost of a call and
# whether it draws random numbers. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensor_values import leaves

RANDOM = re.compile(r"^_?(rand|normal|uniform|bernoulli|multinomial|exponential|cauchy|log_normal|"
                    r"geometric|poisson|binomial|standard_gamma|sample_dirichlet|dropout|"
                    r"native_dropout|alpha_dropout|feature_dropout|fused_dropout|rrelu_with_noise)")
MAX_OPERATIONS = 5000  # exceeded by a recurrent layer, step by step, which is then run unwatched
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


def fake_tensors() -> contextlib.AbstractContextManager | None:
    """A context in which tensors have no data, or None if this PyTorch has no such context."""
    try:
        from torch._subclasses import FakeTensorMode
    except ImportError:
        return None
    return FakeTensorMode(allow_fallback_kernels=False)  # fallback kernels would compute on zeros


class Cost:
    """`elements`: of all results of operations; `flops`: of products; `random`: operations that draw
    random numbers."""

    def __init__(self) -> None:
        self.operations = 0
        self.elements, self.flops, self.random, self.is_empty = 0, 0, [], False

    def add(self, func: Callable[..., Any], args: tuple[Any, ...], result: Any) -> None:
        name = str(func).split(".")[1] if "." in str(func) else str(func)
        # A dropout with probability 0 draws no random numbers.
        is_off = "dropout" in name and 0 in [a for a in args[1:2] if not hasattr(a, "shape")]
        if RANDOM.match(name) and not is_off:
            self.random.append("aten." + name)
        outputs = [t for t in leaves(result) if isinstance(t, torch.Tensor)]
        if not outputs:
            return
        size = sum(t.numel() for t in outputs)
        # With shapes only, a convolution of nothing is possible. PyTorch itself rejects it.
        if size <= 0 and ("convolution" in name or "pool" in name):
            self.is_empty = True
        self.elements += size
        tensors = [t for t in leaves(args) if isinstance(t, torch.Tensor)]
        self.flops += size
        if name in ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv"):
            last = tensors[-1]
            self.flops += 2 * size * last.shape[-2 if last.dim() > 1 else 0]
        elif "convolution" in name and len(tensors) > 1:
            weight = tensors[1]
            per_row = math.prod(weight.shape[1:])
            is_transposed = len(args) > 6 and args[6] is True
            self.flops += 2 * (tensors[0].numel() if is_transposed else size) * per_row
        elif name in RECURRENT and tensors:
            rows = tensors[0].numel() // max(1, tensors[0].shape[-1])
            self.flops += 2 * rows * sum(t.numel() for t in tensors[1:] if t.dim() == 2)


class TooMany(Exception):
    """There are too many operations to watch one by one."""


@contextlib.contextmanager
def watching(limit: float = math.inf) -> Iterator[Cost]:
    from torch.utils._python_dispatch import TorchDispatchMode
    cost = Cost()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                               kwargs: dict[str, Any] | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            cost.add(func, args, result)
            cost.operations += 1
            if cost.operations > limit:
                raise TooMany()
            return result

    with Watch():
        yield cost
