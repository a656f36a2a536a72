# Runs task code on a GPU that has run on the CPU before. Within OnGpu(), the GPU replaces every device that
# the code names, so tensors that it makes for the CPU are where its arguments are. What the code asks about
# devices is answered as on the CPU: dtype_trace.py. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cuda_on_cpu import is_cuda


def is_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) or is_cuda(value)


class OnGpu(TorchFunctionMode):
    """Moving a tensor to a CUDA device makes a copy, as it did on the CPU (cuda_on_cpu.OnCpu)."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cpu:
            return args[0]
        if function is torch.Tensor.cuda:
            return args[0].clone(memory_format=kwargs.get("memory_format", torch.preserve_format))
        named = kwargs.get("device")
        if named is not None:
            kwargs["device"] = self.device
        elif function is torch.Tensor.to and len(args) > 1 and is_device(args[1]):
            named, args = args[1], (args[0], self.device) + tuple(args[2:])
        result = function(*args, **kwargs)
        return result.clone() if is_cuda(named) and args and result is args[0] else result
