# Runs task code that names CUDA devices ("cuda", .cuda()) on the CPU. Inputs, modules and PyTorch's own
# results always come from the CPU, so that a seed gives the same ones on every machine. Within OnCpu(),
# the CPU replaces every CUDA device. Features that PyTorch has only on a GPU (CUDA's autocast) raise
# an error. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

try:
    from torch.utils import _device  # PyTorch 2: `with torch.device("cuda"):`
except ImportError:
    _device = None


def is_cuda(device: Any) -> bool:
    """Interprets a `device` argument as PyTorch does: a number means a CUDA device."""
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


def is_made_on_cuda(function: Callable[..., Any]) -> bool:
    """True if the function makes a tensor on the device of a surrounding `with torch.device("cuda"):`."""
    return (_device is not None and is_cuda(getattr(_device, "CURRENT_DEVICE", None))
            and function in _device._device_constructors())


class OnCpu(TorchFunctionMode):
    """`used`: whether the code named a CUDA device. Moving a tensor there makes a copy, as on a GPU.
    `there`: by address, the memory of tensors that would be on one, if the instance `watches` them. It then keeps all
    of it, so that no other memory gets its address."""
    entered = []  # active instances of this process, the innermost last

    def __init__(self, watches: bool = False) -> None:
        super().__init__()
        self.used, self.watches, self.there = False, watches, {}

    def __enter__(self) -> OnCpu:
        self.entered.append(self)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self.entered.remove(self)
        return super().__exit__(*error)

    def __torch_function__(self, function: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            self.used = True
            return self.placed(args[0].clone(memory_format=kwargs.get("memory_format", torch.preserve_format)))
        if function is torch.Tensor.pin_memory:
            return args[0]
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        device, moves = kwargs.get("device"), function is torch.Tensor.to
        if is_cuda(device) or (device is None and is_made_on_cuda(function)):
            kwargs["device"] = "cpu"
        elif moves and len(args) > 1 and is_cuda(args[1]):
            args = (args[0], "cpu") + tuple(args[2:])
        else:
            result = function(*args, **kwargs)
            return self.placed(result) if self.there and any(map(self.has, args)) else result
        self.used = True
        result = function(*args, **kwargs)
        return self.placed(result.clone() if moves and result is args[0] else result)

    def placed(self, result: Any) -> Any:
        """Notes a result that would be on a CUDA device."""
        if self.watches and isinstance(result, torch.Tensor) and result.layout == torch.strided:
            storage = result.untyped_storage()
            self.there[storage.data_ptr()] = storage
        return result

    def has(self, value: Any) -> bool:
        return (isinstance(value, torch.Tensor) and value.layout == torch.strided and
                value.untyped_storage().data_ptr() in self.there)


def is_there(tensor: torch.Tensor) -> bool:
    """True if the code that runs has made the tensor on a CUDA device, so that it keeps its strides."""
    return any(mode.has(tensor) for mode in OnCpu.entered)


def patch_torch() -> None:
    """Replaces functions that a TorchFunctionMode cannot intercept. Call it once per process."""
    autocast, set_default = torch.autocast.__init__, torch.set_default_device

    @functools.wraps(autocast)
    def without_cuda(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        if OnCpu.entered and is_cuda(device_type) and enabled:
            raise RuntimeError("CUDA's autocast is not available on the CPU; cast explicitly in the "
                               "module instead")
        autocast(self, device_type, *args, **kwargs)

    torch.autocast.__init__ = without_cuda

    @functools.wraps(set_default)
    def unless_cuda(device: Any) -> None:
        if not (OnCpu.entered and is_cuda(device)):
            return set_default(device)
        OnCpu.entered[-1].used = True

    torch.set_default_device = unless_cuda


patch_torch()
