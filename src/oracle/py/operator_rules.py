# Which of PyTorch's operators a plan may contain, and how their arguments are passed.
# An operator must be deterministic, and its results must depend on its arguments alone: no random numbers, no
# files, no settings of the process, no custom operators. Imported after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from typing import Any

import torch

FORBIDDEN_TAGS = (torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output,
                  torch.Tag.dynamic_output_shape)
# Read files, change settings or storages, give values to the host, or exist for autograd alone.
FORBIDDEN = frozenset((
    "from_file", "item", "is_nonzero", "equal", "allclose", "record_stream", "pin_memory", "is_pinned", "set_", "set",
    "set_data", "data", "resize_", "resize", "resize_as_", "resize_as", "resize_as_sparse_", "requires_grad_",
    "retain_grad", "backward", "detach_", "rename", "rename_", "sym_size", "sym_stride", "sym_numel",
    "sym_storage_offset", "sym_constrain_range", "is_set_to", "native_dropout", "cpu", "cuda", "lift", "lift_fresh"))
# Library calls with settings of their own, and operators that do not check the indices in their arguments.
PREFIXES = ("sparse", "quantize", "fake_quant", "rand", "bernoulli", "fbgemm", "mkldnn", "miopen", "cudnn",
            "embedding_bag", "segment_reduce", "ctc_loss")
# Operators with an underscore are PyTorch's own parts. Programs use these.
UNDERSCORED = frozenset(("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
                         "_unsafe_view", "_to_copy", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_convolution",
                         "_weight_norm", "_cdist_forward"))
# Random only with dropout: what an argument must be so that there is none.
WITHOUT_DROPOUT = {"dropout": {"train": False}, "dropout_": {"train": False}, "feature_dropout": {"train": False},
                   "alpha_dropout": {"train": False}, "scaled_dot_product_attention": {"dropout_p": 0.0},
                   "lstm": {"dropout": 0.0}, "gru": {"dropout": 0.0}, "rnn_tanh": {"dropout": 0.0},
                   "rnn_relu": {"dropout": 0.0}}
# These update running statistics, which their schemas do not say: always, or if the named argument is true.
UPDATES_STATISTICS = {"batch_norm": "training", "native_batch_norm": "training", "instance_norm": "use_input_stats",
                      "batch_norm_update_stats": None, "batch_norm_gather_stats": None,
                      "batch_norm_gather_stats_with_counts": None}
KINDS = frozenset(("Tensor", "int", "SymInt", "float", "bool", "str", "number", "ScalarType", "Layout",
                   "MemoryFormat", "Device", "complex"))
CPU = torch.device("cpu")
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class Refused(Exception):
    """The operator, or this use of it, cannot be part of a plan."""


def kind_of(argument: Any) -> str:
    """The innermost type of an argument or a result: "Tensor", "ScalarType" …"""
    kind = str(argument.real_type)
    while kind.startswith(("Optional[", "List[")):
        kind = kind[kind.index("[") + 1:-1]
    return kind


def problem_of(schema: Any, tags: Any) -> str | None:
    """Why operators of this schema are not allowed; None if they are."""
    name = schema.name.removeprefix("aten::")
    if not schema.name.startswith("aten::"):
        return "only PyTorch's own operators (aten) are supported"
    if name in FORBIDDEN or name.startswith(PREFIXES) or (name.startswith("_") and name not in UNDERSCORED):
        return "it is not an operator on values of tensors alone"
    if name not in WITHOUT_DROPOUT and any(tag in tags for tag in FORBIDDEN_TAGS):
        return "its result is random, or has a shape that depends on values"
    for argument in schema.arguments:
        if kind_of(argument) not in KINDS:
            return "it has an argument of type %s" % kind_of(argument)
        is_list = str(argument.real_type).find("List[") >= 0
        if is_list and argument.alias_info is not None and argument.alias_info.is_write:
            return "it writes to a list of tensors"
    if not schema.returns or any(kind_of(result) != "Tensor" for result in schema.returns):
        return "it does not return tensors"
    return None


@functools.cache
def operator(name: str) -> Any:
    """The overload "aten::sum.dim_IntList". Raises Refused."""
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    overload = overload or "default"
    if space != "aten" or not base.isidentifier() or base.startswith("__"):
        raise Refused("%r is not an operator" % name)
    packet = getattr(torch.ops.aten, base, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket) or overload not in packet.overloads():
        raise Refused("this PyTorch has no operator %s" % name)
    found = getattr(packet, overload)
    problem = problem_of(found._schema, found.tags)
    if problem is not None:
        raise Refused("%s: %s" % (name, problem))
    return found


def check_dropout(schema: Any, arguments: list[Any]) -> None:
    """Raises Refused if this call draws random numbers."""
    needed = WITHOUT_DROPOUT.get(schema.name.removeprefix("aten::"), {})
    for argument, value in zip(schema.arguments, arguments, strict=True):
        if argument.name in needed and value != needed[argument.name]:
            raise Refused("%s with dropout is random" % schema.name)


def without_statistics(schema: Any, arguments: list[Any]) -> list[Any]:
    """An operator that would update running statistics gets other memory for them. Its results do not depend on what is
    in them, and a plan has no writes that a schema does not declare."""
    name = schema.name.removeprefix("aten::")
    if name not in UPDATES_STATISTICS:
        return arguments
    flag = UPDATES_STATISTICS[name]
    given = {argument.name: value for argument, value in zip(schema.arguments, arguments, strict=True)}
    if flag is not None and not given[flag]:
        return arguments
    return [torch.empty_like(value) if argument.name in ("running_mean", "running_var") and value is not None else value
            for argument, value in zip(schema.arguments, arguments, strict=True)]


@functools.lru_cache(maxsize=1)
def schemas() -> list[str]:
    """The texts of all allowed schemas."""
    allowed = []
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        try:
            allowed.append(str(operator(name)._schema))
        except Refused:
            continue
    return sorted(allowed)


def value_for(argument: Any, value: Any, in_float64: bool = False, device: torch.device = CPU) -> Any:
    """What is passed for `argument`: numbers become dtypes, layouts and formats; every device is `device`."""
    kind = kind_of(argument)
    if kind == "Device":
        return device
    if value is None:
        return None
    if isinstance(value, list):
        return [value_for(argument, item, in_float64, device) for item in value]
    if kind == "ScalarType":
        dtype = dtype_of(value)
        return torch.float64 if in_float64 and dtype.is_floating_point else dtype
    if kind == "MemoryFormat":
        return MEMORY_FORMATS[value]
    if kind == "Layout":
        return torch.strided
    return value


@functools.cache
def dtype_of(number: int) -> torch.dtype:
    """The dtype of a number of c10::ScalarType."""
    names = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", None, None, None, "bool",
             None, None, None, "bfloat16")
    if not 0 <= number < len(names) or names[number] is None:
        raise Refused("dtype number %d is not supported" % number)
    return getattr(torch, names[number])
