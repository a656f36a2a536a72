# Task code may name CUDA devices ("cuda", .cuda()), as files written for a GPU do. Inputs, modules and
# PyTorch's own answer come from the CPU in any case, so that a seed gives the same ones on every machine:
# within OnCpu() what such code asks of a CUDA device is done there. What PyTorch computes on a GPU alone
# (autocast of CUDA) is refused, not computed in another way. SPDX-License-Identifier: Apache-2.0
import functools

import torch
from torch.overrides import TorchFunctionMode

try:
    from torch.utils import _device  # PyTorch 2: `with torch.device("cuda"):`
except ImportError:
    _device = None


def is_cuda(device):
    """As PyTorch reads a `device` argument: a number is a CUDA device's."""
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


def is_made_on_cuda(function):
    """Whether the function makes a tensor on the device of a `with torch.device("cuda"):` around it."""
    return (_device is not None and is_cuda(getattr(_device, "CURRENT_DEVICE", None))
            and function in _device._device_constructors())


class OnCpu(TorchFunctionMode):
    """`used`: whether anything named a CUDA device. A tensor that is put there is a copy, as on a GPU."""
    entered = []  # those of the process that are in use, the last one inside the others

    def __init__(self):
        super().__init__()
        self.used = False

    def __enter__(self):
        self.entered.append(self)
        return super().__enter__()

    def __exit__(self, *error):
        self.entered.remove(self)
        return super().__exit__(*error)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            self.used = True
            return args[0].clone(memory_format=kwargs.get("memory_format", torch.preserve_format))
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
            return function(*args, **kwargs)
        self.used = True
        result = function(*args, **kwargs)
        return result.clone() if moves and result is args[0] else result


def supplant():
    """Replaces what a mode does not see; once in a process."""
    autocast, set_default = torch.autocast.__init__, getattr(torch, "set_default_device", None)

    @functools.wraps(autocast)
    def without_cuda(self, device_type, *args, **kwargs):
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        if OnCpu.entered and is_cuda(device_type) and enabled:
            raise RuntimeError("autocast of CUDA has no like on the CPU; let the module cast what it "
                               "wants in 16 bits")
        autocast(self, device_type, *args, **kwargs)

    torch.autocast.__init__ = without_cuda
    if set_default is None:
        return

    @functools.wraps(set_default)
    def unless_cuda(device):
        if not (OnCpu.entered and is_cuda(device)):
            return set_default(device)
        OnCpu.entered[-1].used = True

    torch.set_default_device = unless_cuda


supplant()
