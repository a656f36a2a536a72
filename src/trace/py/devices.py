# Runs a program's CUDA tensors on tensors without data: they are PyTorch's CPU tensors inside, and say that they are
# on the first GPU. So a program records on a machine without a GPU as on one with a GPU, and a PyTorch without CUDA is
# enough. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from recording import Recording, arguments_of
from refusal import Refusal, unsupported
from storages import CUDA, HOST

aten = torch.ops.aten
# Operators that PyTorch would replace with others made for the CPU. They are recorded as one node.
WHOLE = {torch._C._nn.scaled_dot_product_attention: aten.scaled_dot_product_attention.default}
RECURRENT = {torch._VF.lstm: aten.lstm, torch._VF.gru: aten.gru, torch._VF.rnn_tanh: aten.rnn_tanh,
             torch._VF.rnn_relu: aten.rnn_relu}


def kind_of(device: Any) -> str | None:
    """"cuda" or "cpu" for a `device` argument as PyTorch reads it: a number means a GPU."""
    if device is None:
        return None
    if isinstance(device, bool) or not isinstance(device, (str, int, torch.device)):
        return None
    kind = "cuda" if isinstance(device, int) else torch.device(device).type
    if kind not in ("cuda", "cpu"):
        raise unsupported("device %s" % kind)
    return CUDA if kind == "cuda" else HOST


class Devices(TorchFunctionMode):
    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_function__(self, function: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recording, kwargs = self.recording, dict(kwargs or {})
        special = SPECIAL.get(function)
        if special is not None:
            try:
                return special(self, args, kwargs)
            except Refusal as refusal:
                raise recording.refuse(refusal) from None
        if function in WHOLE or function in RECURRENT:
            return self.whole(function, args, kwargs)
        outer, device = recording.device, None
        if "device" in kwargs:
            device = kind_of(kwargs["device"])
            kwargs["device"] = "cpu" if device is not None else kwargs["device"]
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        is_helper = isinstance(function, types.FunctionType)
        recording.device = device or outer
        recording.depth += 1
        recording.helpers += is_helper
        try:
            return function(*args, **kwargs)
        finally:
            recording.depth -= 1
            recording.helpers -= is_helper
            recording.device = outer

    def whole(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Records a call as one operator."""
        recording = self.recording
        if function in WHOLE:
            operator = WHOLE[function]
            args, kwargs = recording.as_autocast(operator._schema, args, kwargs)
        elif any(recording.autocast.on.values()):
            raise recording.refuse(unsupported("recurrent layers under torch.autocast", "unsupported_operator"))
        else:
            packed = isinstance(args[1], torch.Tensor) and isinstance(args[2], (list, tuple)) and len(args) == 9
            operator = RECURRENT[function].input if not packed or isinstance(args[3], (list, tuple)) else None
            operator = operator if isinstance(args[2], (list, tuple)) else None
            if operator is None:
                raise recording.refuse(unsupported("packed sequences", "unsupported_operator"))
        with recording.paused():
            result = function(*args, **kwargs)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        values = arguments_of(operator._schema, args, kwargs)
        device = recording.device_of(operator, [v for v in values if isinstance(v, torch.Tensor)])
        recording.add(operator, values, results, results, [], device)
        return result

    # ---- what tensors say about devices ----

    def device_kind(self, tensor: torch.Tensor) -> str:
        storage = self.recording.storages.find(tensor)
        return HOST if storage is None or storage.device == HOST else CUDA

    def device(self, args: Any, _kwargs: Any) -> torch.device:
        return torch.device("cuda", 0) if self.device_kind(args[0]) == CUDA else torch.device("cpu")

    def is_cuda(self, args: Any, _kwargs: Any) -> bool:
        return self.device_kind(args[0]) == CUDA

    def is_cpu(self, args: Any, _kwargs: Any) -> bool:
        return self.device_kind(args[0]) == HOST

    def get_device(self, args: Any, _kwargs: Any) -> int:
        return 0 if self.device_kind(args[0]) == CUDA else -1

    def same(self, args: Any, _kwargs: Any) -> torch.Tensor:
        return args[0]

    def nothing(self, _args: Any, _kwargs: Any) -> None:
        return None

    def no(self, _args: Any, _kwargs: Any) -> bool:
        return False

    def install(self) -> None:
        """PyTorch asks no mode for the device of a tensor without data: its class answers."""
        inside = FakeTensor.device

        def device(tensor: FakeTensor) -> torch.device:
            if self.recording.depth or self.recording.is_paused:
                return inside.__get__(tensor)
            return self.device((tensor,), {})
        FakeTensor.device = property(device, inside.__set__)

    # ---- moves ----

    def moved(self, tensor: torch.Tensor, device: str, dtype: torch.dtype | None, copy: bool, kwargs: Any) -> Any:
        if self.device_kind(tensor) == device and not copy:
            return tensor if dtype in (None, tensor.dtype) else aten._to_copy(tensor, dtype=dtype, **kwargs)
        outer, self.recording.device = self.recording.device, device
        try:
            return aten._to_copy(tensor, dtype=dtype, **kwargs)
        finally:
            self.recording.device = outer

    def cuda(self, args: Any, kwargs: Any) -> torch.Tensor:
        return self.moved(args[0], CUDA, None, False, layout_of(kwargs))

    def cpu(self, args: Any, kwargs: Any) -> torch.Tensor:
        return self.moved(args[0], HOST, None, False, layout_of(kwargs))

    def to(self, args: Any, kwargs: Any) -> torch.Tensor:
        tensor, device, dtype, flags = args[0], None, kwargs.get("dtype"), []
        for value in args[1:]:
            if isinstance(value, torch.Tensor):
                device, dtype = self.device_kind(value), value.dtype
            elif isinstance(value, torch.dtype):
                dtype = value
            elif isinstance(value, bool):
                flags.append(value)
            else:
                device = kind_of(value) or device
        other = kwargs.get("other")
        if other is not None:
            device, dtype = self.device_kind(other), other.dtype
        device = kind_of(kwargs.get("device")) or device or self.device_kind(tensor)
        copy = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
        if kwargs.get("memory_format", torch.preserve_format) != torch.preserve_format:
            return tensor.to(memory_format=kwargs["memory_format"]) if dtype in (None, tensor.dtype) else self.moved(
                tensor, device, dtype, copy, layout_of(kwargs))
        return self.moved(tensor, device, dtype, copy, {})

    # ---- what reads memory ----

    def data_ptr(self, args: Any, _kwargs: Any) -> int:
        """A key for caches, and an address for kernels (source_kernels.py)."""
        with self.recording.paused():
            offset = args[0].storage_offset() * args[0].element_size()
        return self.recording.storage_of(args[0]).address + offset

    def reads(self, _args: Any, _kwargs: Any) -> Any:
        raise Refusal("reads_device_memory", "the program reads the values of a tensor (tolist(), numpy() …); cupel "
                                             "records programs without data")

    def text(self, args: Any, _kwargs: Any) -> str:
        return "tensor(..., shape=%s, dtype=%s)" % (list(args[0].shape), args[0].dtype)


def layout_of(kwargs: Any) -> Any:
    given = kwargs.get("memory_format")
    return {} if given is None else {"memory_format": given}


T = torch.Tensor
SPECIAL = {
    T.device.__get__: Devices.device, T.is_cuda.__get__: Devices.is_cuda, T.is_cpu.__get__: Devices.is_cpu,
    T.get_device: Devices.get_device, T.cuda: Devices.cuda, T.cpu: Devices.cpu, T.to: Devices.to,
    T.pin_memory: Devices.same, T.record_stream: Devices.nothing, T.is_pinned: Devices.no,
    T.share_memory_: Devices.same, T.data_ptr: Devices.data_ptr, T.tolist: Devices.reads, T.numpy: Devices.reads,
    T.__array__: Devices.reads, T.__repr__: Devices.text, T.__format__: Devices.text, T.__str__: Devices.text}
