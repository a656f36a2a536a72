# Functions compiled by PyTorch, for baselines.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

MODES = {"compile": None, "max-autotune": "max-autotune-no-cudagraphs"}


def keep_saved_tensors() -> None:
    """Prevents a replayed backward pass from consuming tensors that the forward pass saved. PyTorch 2.12
    and later use the default of this setting, not its value, when they compile the pass."""
    try:
        settings = importlib.import_module("torch._functorch.config")
    except ImportError:
        return
    if not hasattr(settings, "donated_buffer"):
        return
    settings.donated_buffer = False
    entry = getattr(settings, "_config", {}).get("donated_buffer")
    if hasattr(entry, "default"):
        entry.default = False


def compiled(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    keep_saved_tensors()
    mode = MODES[kind]
    return torch.compile(function, mode=mode) if mode else torch.compile(function)


def reset_compiler() -> None:
    """Drops all compiled code."""
    importlib.import_module("torch._dynamo").reset()
