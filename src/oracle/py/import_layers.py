# Layers of torch.nn and the functions that they call. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

ONE_NUMBER = {  # layer: (function, its numbers)
    "ReLU": ("F.relu", []), "ReLU6": ("F.relu6", []), "Sigmoid": ("torch.sigmoid", []),
    "Tanh": ("torch.tanh", []), "GELU": ("F.gelu", ["approximate"]), "SiLU": ("F.silu", []),
    "Softmax": ("torch.softmax", ["dim"]), "LogSoftmax": ("torch.log_softmax", ["dim"]),
    "LeakyReLU": ("F.leaky_relu", ["negative_slope"]), "ELU": ("F.elu", ["alpha"]),
    "SELU": ("F.selu", []), "Hardtanh": ("F.hardtanh", ["min_val", "max_val"]),
    "Hardswish": ("F.hardswish", []), "Hardsigmoid": ("F.hardsigmoid", []), "Mish": ("F.mish", []),
    "Softplus": ("F.softplus", ["beta", "threshold"]), "Softsign": ("F.softsign", []),
    "Flatten": ("torch.flatten", ["start_dim", "end_dim"]),
}
DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0,
            "ceil_mode": False, "count_include_pad": True, "divisor_override": None,
            "approximate": "none"}
# A call: the function, (argument, tensor), numbers. See describe().
Described = tuple[str | None, list[tuple[str, Any]], dict[str, Any]]


def simple(value: Any) -> Any:
    """Equal numbers for all axes as one number."""
    if isinstance(value, (tuple, list)):
        return value[0] if len(set(value)) == 1 else tuple(value)
    return value


def changed(layer: torch.nn.Module, keys: Iterable[str]) -> dict[str, Any]:
    """The numbers that differ from the function's defaults."""
    found = {}
    for key in keys:
        value = simple(getattr(layer, key))
        if key not in DEFAULTS or value != DEFAULTS[key]:
            found[key] = value
    return found


def own(layer: torch.nn.Module, *keys: str) -> list[tuple[str, str | None]]:
    """(key, name of the layer's tensor, or None if the layer does not have it)."""
    return [(k, k if getattr(layer, k, None) is not None else None) for k in keys]


def describe(layer: torch.nn.Module) -> Described | None:
    """(function, [(argument, tensor)], numbers) of a layer's call. The function is None if the layer
    returns its input. The result is None for unsupported layers."""
    nn = torch.nn
    name = type(layer).__name__
    if type(layer) is not getattr(nn, name, None) or layer._forward_hooks:
        return None
    if name == "Identity" or name.startswith("Dropout") and (layer.p == 0 or not layer.training):
        return None if name != "Identity" and layer.inplace else (None, [], {})
    if name in ONE_NUMBER and not getattr(layer, "inplace", False):
        function, keys = ONE_NUMBER[name]
        return function, [], changed(layer, keys)
    if name == "Linear":
        return "F.linear", own(layer, "weight", "bias"), {}
    dimensions = name[-2:]
    if name.startswith("Conv") and layer.padding_mode == "zeros":
        is_transposed = name.startswith("ConvTranspose")
        keys = ["stride", "padding", "dilation", "groups"]
        keys += ["output_padding"] if is_transposed else []
        function = "F.conv_transpose" if is_transposed else "F.conv"
        return function + dimensions, own(layer, "weight", "bias"), changed(layer, keys)
    return describe_norm(layer, name) or describe_pool(layer, name, dimensions)


def describe_norm(layer: torch.nn.Module, name: str) -> Described | None:
    if name == "LayerNorm" and layer.elementwise_affine:
        return "F.layer_norm", [("shape", "weight")] + own(layer, "weight", "bias"), {
            "eps": layer.eps}
    if name == "GroupNorm" and layer.affine:
        return "F.group_norm", [("num_groups", layer.num_groups)] + own(layer, "weight", "bias"), {
            "eps": layer.eps}
    if name.startswith("BatchNorm") and layer.track_running_stats and layer.momentum is not None:
        tensors = own(layer, "running_mean", "running_var", "weight", "bias")
        return "F.batch_norm", tensors, {"training": layer.training, "momentum": layer.momentum,
                                         "eps": layer.eps}
    if name.startswith("InstanceNorm") and not layer.track_running_stats:
        tensors = own(layer, "running_mean", "running_var", "weight", "bias")
        return "F.instance_norm", tensors if layer.affine else [], {"eps": layer.eps}
    return None


def describe_pool(layer: torch.nn.Module, name: str, dimensions: str) -> Described | None:
    if name.startswith("MaxPool") and not layer.return_indices:
        return "F.max_pool" + dimensions, [], changed(layer, [
            "kernel_size", "padding", "dilation", "ceil_mode"]) | {"stride": simple(layer.stride)}
    if name.startswith("AvgPool"):
        keys = ["kernel_size", "padding", "ceil_mode", "count_include_pad"]
        keys += ["divisor_override"] if dimensions != "1d" else []
        return "F.avg_pool" + dimensions, [], changed(layer, keys) | {"stride": simple(layer.stride)}
    if name.startswith("AdaptiveAvgPool"):
        return "F.adaptive_avg_pool" + dimensions, [], changed(layer, ["output_size"])
    return None
