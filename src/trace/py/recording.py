# Records the operators that a program calls on tensors without data. Below PyTorch's dispatcher, every operator
# arrives here, whichever way Python called it. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import contextlib
import ctypes
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from autocast import Autocast, cast, eligible
from refusal import Refusal, line_of, unsupported
from storages import ANY, CUDA, DTYPES, HOST, Storage, Storages, content, digest, view_of
from streams import Order

aten = torch.ops.aten
MOST_UPLOADED = 1 << 20  # bytes of a tensor that a program makes of Python numbers
MOST_NODES = 100_000  # of all calls
FILLS = {"aten::zeros": 0, "aten::zeros_like": 0, "aten::zero_": 0, "aten::new_zeros": 0, "aten::ones": 1,
         "aten::ones_like": 1, "aten::new_ones": 1, "aten::full": None, "aten::full_like": None, "aten::fill_": None,
         "aten::new_full": None}
PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"))
COPIES = frozenset(("aten::clone", "aten::_to_copy", "aten::copy_", "aten::lift_fresh_copy", "aten::detach_copy"))
MIXED_DEVICES = ("aten::index", "aten::_index_put", "aten::copy_", "aten::_to_copy", "aten::_unsafe_index")
LAYOUTS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}
SCALAR_TYPES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
                torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15, torch.float8_e5m2: 23,
                torch.float8_e4m3fn: 24}


class Node:
    """One step of a program. `reads` and `writes`: storages. `depends`: on inputs of its call."""

    def __init__(self, kind: str, fields: dict[str, Any], reads: list[Storage], writes: list[Storage]) -> None:
        self.kind, self.fields, self.reads, self.writes = kind, fields, reads, writes
        self.depends = any(s.is_input or s.depends for s in reads)
        self.draws = False  # random numbers
        self.overwrites: list[Storage] = []  # all of their bytes
        self.call = 0


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def number(value: float) -> Any:
    """A plan's JSON of a number."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


class Recording(TorchDispatchMode):
    """The nodes and storages of a program, and its random numbers as a hash of all that drew from them."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file, self.fake = file, FakeTensorMode(allow_non_fake_inputs=True)
        self.storages, self.nodes, self.order = Storages(), [], Order()
        self.call, self.random = 0, digest("seed")
        self.device: str | None = None  # that the running function names
        self.depth = 0  # functions of PyTorch that are running
        self.helpers = 0  # those of them that are written in Python: their own calls name no device
        self.is_paused = 0
        self.autocast = Autocast()
        self.refusal: Refusal | None = None  # the first one: a program may have caught it
        self.notes: list[str] = []  # what was assumed about the program
        self.searches: list[dict[str, Any]] = []  # of its autotuners
        self.copied: dict[int, tuple[Any, Any, bytes]] = {}  # tensors with data, those without that they became, the data

    def refuse(self, refusal: Refusal) -> Refusal:
        """Remembers a refusal, with the line of the program that caused it."""
        if self.refusal is None:
            refusal.line = refusal.line or line_of(self.file)
            self.refusal = refusal
        return self.refusal

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def on_memory(self, memory: torch.Tensor, dtype: torch.dtype, offset: int, shape: list[int],
                  strides: list[int]) -> torch.Tensor:
        """A tensor without data on the storage of `memory`. `offset`: in elements."""
        with self.paused():
            return torch.empty(0, dtype=dtype, device="cpu").set_(memory.untyped_storage(), offset, shape, strides)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.is_paused += 1
        try:
            yield
        finally:
            self.is_paused -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.is_paused:
            return func(*args, **kwargs)
        try:
            return self.operator(func, args, kwargs)
        except DataDependentOutputException:
            raise self.refuse(Refusal("reads_device_memory",
                                      "the program reads a value of a tensor (%s); cupel records programs without "
                                      "data" % func)) from None
        except DynamicOutputShapeException:
            raise self.refuse(unsupported("%s has a result whose shape depends on values" % func,
                                          "unsupported_operator")) from None
        except UnsupportedOperatorException:
            raise self.refuse(unsupported("PyTorch does not know the shape of %s's result" % func,
                                          "unsupported_operator")) from None

    # ---- one operator ----

    def operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        schema = func._schema
        if func is aten._local_scalar_dense.default:
            return self.value_of(args[0])
        args, kwargs = self.without_data(args, kwargs)
        if func is aten.lift_fresh.default:
            return args[0]
        args, kwargs = self.as_autocast(schema, args, kwargs)
        self.note_tf32(schema)
        sources = list(tensors_in([args, kwargs]))
        device = self.device_of(func, sources)
        for tensor in sources:
            self.storage_of(tensor)
        with self.paused():
            result = func(*args, **kwargs)
        results = list(tensors_in(result))
        values = arguments_of(schema, args, kwargs)
        written = [t for argument, value in zip(schema.arguments, values, strict=True)
                   if argument.alias_info is not None and argument.alias_info.is_write for t in tensors_in(value)]
        fresh = [t for t in results if self.storages.find(t) is None]
        if written or fresh:
            self.add(func, values, results, fresh, written, device)
        return result

    def note_tf32(self, schema: Any) -> None:
        if schema.name in PRODUCTS and torch._C._get_cublas_allow_tf32():
            self.note("the program lets PyTorch's matrix products use TF32; they are judged and timed in float32")

    def as_autocast(self, schema: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as torch.autocast casts them, if it is on."""
        if not any(self.autocast.on.values()):
            return args, kwargs
        tensors = list(tensors_in([args, kwargs]))
        if any(self.storage_of(t).device == HOST and eligible(t) for t in tensors):
            if self.autocast.is_on("cpu"):
                raise self.refuse(unsupported("torch.autocast(\"cpu\") of tensors that are on the CPU"))
            return args, kwargs
        to = self.autocast.type_of(schema, tensors, kwargs.get("dtype")) if self.autocast.is_on() else None
        if to is None:
            return args, kwargs

        def convert(tensor: torch.Tensor, dtype: torch.dtype) -> Any:
            return self.operator(aten._to_copy.default, (tensor,), {"dtype": dtype})
        return tuple(cast(a, to, convert) for a in args), {k: cast(v, to, convert) for k, v in kwargs.items()}

    def add(self, func: Any, values: list[Any], results: list[Any], fresh: list[Any], written: list[Any],
            device: str) -> None:
        """Adds a node for an operator that writes memory, unless the memory is only allocated."""
        schema = func._schema
        how = [schema.name, schema.overload_name, [self.described(v) for v in values]]
        is_random = torch.Tag.nondeterministic_seeded in func.tags and not is_without_dropout(schema, values)
        if is_random:
            self.random = digest(self.random, how)
            how.append(self.random)
        made = self.content_of_copy(schema.name, values) or digest(*how)
        for i, tensor in enumerate(fresh):
            storage = self.storages.add(tensor, made if len(fresh) == 1 else digest(made, i), device)
            storage.call = self.call
        if schema.name.startswith(("aten::empty", "aten::new_empty")):
            for tensor in fresh:
                self.storage_of(tensor).made = digest("empty")
            return
        node = self.node_of(func, values, results, fresh, written, is_random)
        node.draws = is_random
        node.overwrites = [self.storage_of(t) for t in fresh]
        for tensor in written:
            storage = self.storage_of(tensor)
            fills = schema.name in FILLS or is_random or schema.name == "aten::copy_"
            if fills and tensor.numel() * tensor.element_size() == storage.bytes:
                storage.made = made
                node.overwrites.append(storage)
            else:
                storage.made = digest(made, storage.made)
        self.append(node)

    def append(self, node: Node) -> None:
        if len(self.nodes) >= MOST_NODES:
            raise self.refuse(unsupported("the program calls more than %d operators" % MOST_NODES))
        node.fields["line"] = line_of(self.file)
        node.call = self.call
        try:
            self.order.step(node)
        except Refusal as refusal:
            raise self.refuse(refusal) from None
        for storage in node.writes:
            storage.depends = storage.depends or node.depends
        self.nodes.append(node)

    def content_of_copy(self, name: str, values: list[Any]) -> str | None:
        """A copy has the contents of its source."""
        if name not in COPIES or name == "aten::copy_":
            return None
        source = values[0]
        dtype = next((v for v in values[1:] if isinstance(v, torch.dtype)), source.dtype)
        layout = next((v for v in values[1:] if isinstance(v, torch.memory_format)), torch.preserve_format)
        is_same = dtype == source.dtype and source.is_contiguous() and layout in (torch.preserve_format,
                                                                                  torch.contiguous_format)
        return content(source, self.storage_of(source)) if is_same else None

    def node_of(self, func: Any, values: list[Any], results: list[Any], fresh: list[Any], written: list[Any],
                draws: bool) -> Node:
        schema = func._schema
        reads = [self.storage_of(t) for t in tensors_in(values)]
        writes = [self.storage_of(t) for t in fresh + written]
        if draws:
            return Node("random", {"name": schema.name}, reads, writes)
        target = (fresh + written)[0]
        if schema.name in FILLS and len(fresh) + len(written) == 1:
            value = FILLS[schema.name]
            if value is None:
                name = "value" if schema.name == "aten::fill_" else "fill_value"
                value = values[[a.name for a in schema.arguments].index(name)]
            if isinstance(value, (bool, int, float)):
                return Node("fill", {"to": self.view(target), "pattern": pattern_of(value, target.dtype)}, [], writes)
        if schema.name in COPIES and len(fresh) + len(written) == 1:
            source = values[1] if schema.name == "aten::copy_" else values[0]
            source = source.expand(target.shape) if source.shape != target.shape else source
            return Node("copy", {"to": self.view(target), "from": self.view(source)}, [self.storage_of(source)], writes)
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        new = {id(t) for t in fresh}
        return Node("operator", {"name": name, "arguments": [self.encode(v, func) for v in values],
                                 "results": [self.view(t) if id(t) in new else None for t in results]}, reads, writes)

    # ---- values ----

    def view(self, tensor: torch.Tensor) -> dict[str, Any]:
        if tensor.dtype not in DTYPES:
            raise self.refuse(unsupported("a tensor has dtype %s" % tensor.dtype))
        return view_of(tensor, self.storage_of(tensor))

    def encode(self, value: Any, func: Any) -> Any:
        """An argument of an operator in a plan's JSON."""
        if isinstance(value, torch.Tensor):
            return {"view": self.view(value)}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return {"int": value}
        if isinstance(value, float):
            return {"float": number(value)}
        if isinstance(value, (list, tuple)):
            return {"list": [self.encode(item, func) for item in value]}
        if isinstance(value, torch.dtype):
            if value not in SCALAR_TYPES:
                raise self.refuse(unsupported("%s with dtype %s" % (func, value), "unsupported_operator"))
            return {"int": SCALAR_TYPES[value]}
        if isinstance(value, torch.memory_format):
            return {"int": LAYOUTS[value]}
        if isinstance(value, torch.layout):
            return {"int": 0}
        if isinstance(value, torch.device):
            return None
        raise self.refuse(unsupported("%s with an argument of type %s" % (func, type(value).__name__),
                                      "unsupported_operator"))

    def described(self, value: Any) -> Any:
        """An argument for a hash of how something was made."""
        if isinstance(value, torch.Tensor):
            return [content(value, self.storage_of(value)), list(value.shape), str(value.dtype)]
        if isinstance(value, (list, tuple)):
            return [self.described(item) for item in value]
        return None if isinstance(value, (torch.device, torch.Generator)) else str(value)

    def storage_of(self, tensor: torch.Tensor) -> Storage:
        storage = self.storages.find(tensor)
        if storage is None:
            raise self.refuse(Refusal("host_privilege", "the program made a tensor that PyTorch's dispatcher did not "
                                      "see, so cupel does not know its contents"))
        return storage

    def content_of(self, tensor: torch.Tensor) -> str:
        return content(tensor, self.storage_of(tensor))

    def value_of(self, tensor: torch.Tensor) -> Any:
        """The value of an argument of one element: host code may read it."""
        storage = self.storages.find(tensor)
        if storage is not None and storage.value is not None and not storage.depends:
            return storage.value
        raise self.refuse(Refusal("reads_device_memory", "the program reads a value of a tensor (item(), bool(), "
                                  "int() …); cupel records programs without data"))

    def without_data(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Replaces tensors with data: those that programs make of Python numbers."""
        def replaced(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
                return self.uploaded(value)
            if isinstance(value, (list, tuple)):
                return type(value)(replaced(item) for item in value)
            return value
        return tuple(replaced(a) for a in args), {k: replaced(v) for k, v in kwargs.items()}

    def uploaded(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self.copied.get(id(tensor))
        if known is not None:
            self.check_unchanged(*known)
            return known[1]
        if tensor.numel() * tensor.element_size() > MOST_UPLOADED:
            raise self.refuse(unsupported("the program makes a tensor of more than %d bytes of Python or NumPy numbers"
                                          % MOST_UPLOADED))
        data = data_of(tensor)
        with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
            value = tensor.item() if tensor.numel() == 1 else None
        with self.paused():
            fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        storage = self.storages.add(fake, digest("data", data.hex(), str(tensor.dtype)), self.device or HOST)
        storage.call = self.call
        storage.value = value
        if data:
            self.append(Node("upload", {"to": self.view(fake), "bytes": base64.b64encode(data).decode()}, [],
                             [storage]))
        self.copied[id(tensor)] = (tensor, fake, data)
        return fake

    def check_unchanged(self, tensor: torch.Tensor, _fake: torch.Tensor, data: bytes) -> None:
        """Tensors of NumPy's arrays share their memory, which Python can change later."""
        if data_of(tensor) != data:
            raise self.refuse(unsupported("the program changes Python or NumPy numbers after it made a tensor of them"))

    def check_copied(self) -> None:
        for known in self.copied.values():
            self.check_unchanged(*known)

    # ---- devices ----

    def device_of(self, func: Any, sources: list[torch.Tensor]) -> str:
        """Where new results are. Raises PyTorch's error if the arguments are on two devices."""
        if self.device is not None:
            return self.device
        devices = set()
        for tensor in sources:
            storage = self.storages.find(tensor)
            if storage is not None and (storage.device == CUDA or tensor.dim() > 0):
                devices.add(storage.device)
        devices.discard(ANY)
        if len(devices) > 1 and not func._schema.name.startswith(MIXED_DEVICES) and not self.helpers:
            raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
                               "and cpu!")
        if CUDA in devices:
            return CUDA
        if not sources and self.helpers > 0:
            return ANY
        return HOST


def data_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor with data, in order."""
    with (torch.no_grad(), torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes()):
        flat = tensor.detach().contiguous().reshape(-1)
        begin = flat.untyped_storage().data_ptr() + flat.storage_offset() * flat.element_size()
        return ctypes.string_at(begin, flat.numel() * flat.element_size()) if flat.numel() else b""


def arguments_of(schema: Any, args: Any, kwargs: Any) -> list[Any]:
    """The values of all arguments of a schema, in its order."""
    values = list(args)
    for argument in schema.arguments[len(args):]:
        values.append(kwargs.get(argument.name, argument.default_value))
    return values


def is_without_dropout(schema: Any, values: list[Any]) -> bool:
    """True for operators that draw random numbers only for a dropout that this call does not have."""
    quiet = {"dropout_p": 0.0, "dropout": 0.0, "train": False, "p": 0.0}
    given = [(a.name, v) for a, v in zip(schema.arguments, values, strict=True) if a.name in quiet]
    return bool(given) and any(v == quiet[name] for name, v in given)


def pattern_of(value: Any, dtype: torch.dtype) -> str:
    """The bytes of an element, in base64."""
    with torch.utils._python_dispatch._disable_current_modes():
        data = bytes(torch.full((1,), value, dtype=torch.float64 if dtype.is_floating_point else torch.int64)
                     .to(dtype).view(torch.uint8).tolist())
    return base64.b64encode(data).decode()
