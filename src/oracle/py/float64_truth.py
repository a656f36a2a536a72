# Runs a reference in float64, even if its code names shorter types.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import float8
from task_error import TaskError

LOW = (torch.float32, torch.float16, torch.bfloat16) + float8.TYPES  # types that become float64


def raise_value(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in LOW else value
    if isinstance(value, torch.Tensor) and value.dtype in LOW:
        return value.to(torch.float64)
    if isinstance(value, (list, tuple)):
        return type(value)(raise_value(v) for v in value)
    return value


class Float64(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To hide this class from its compiler, PyTorch would import it: seconds."""
        return False

    def __torch_dispatch__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        name = str(func)
        if name.startswith("aten.view.dtype"):
            raise TaskError("the reference reinterprets the bits of a tensor "
                            "(Tensor.view(dtype)), so it has no float64 truth")
        kwargs = dict(kwargs or {})
        schema = getattr(func, "_schema", None)
        written = set()
        if schema is not None:
            for i, a in enumerate(schema.arguments):
                if a.alias_info is not None and a.alias_info.is_write:
                    written.update((i, a.name))
        args = tuple(a if i in written else raise_value(a) for i, a in enumerate(args))
        kwargs = {k: a if k in written else raise_value(a) for k, a in kwargs.items()}
        if name in float8.FORMS:
            return float8.in_float64(name, args, kwargs)
        result = func(*args, **kwargs)
        return result if written else raise_value(result)


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Turns casts to the shorter floating-point types, and new tensors of these types, into float64. Code
    with `x.float()` then still computes the truth."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Float64():
            yield
    finally:
        torch.set_default_dtype(before)
