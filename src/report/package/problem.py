# Calls the reference of a problem that is a module. Its positional arguments are the inputs, then its state.
# SPDX-License-Identifier: Apache-2.0
import torch

from . import reference


def build():
    init = reference.get_init_inputs() if hasattr(reference, "get_init_inputs") else []
    if (isinstance(init, (list, tuple)) and len(init) == 2 and isinstance(init[0], (list, tuple))
            and isinstance(init[1], dict)):
        return reference.Model(*init[0], **init[1])
    if isinstance(init, dict):
        return reference.Model(**init)
    return reference.Model(*init)


def call(model, args):
    """Calls `model` with every parameter and buffer taken from `args`."""
    names = [k for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)]
    count = len(args) - len(names)
    state = {name: value.clone() for name, value in zip(names, args[count:])}
    return torch.func.functional_call(model, state, tuple(args[:count]))


def forward_fn(*args):
    return call(build(), args)


def draw(seed):
    """(model, arguments) with new inputs and parameters."""
    torch.manual_seed(seed)
    inputs = reference.get_inputs()
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    model = build()
    state = [v.detach() for v in model.state_dict().values() if isinstance(v, torch.Tensor)]
    return model, inputs + state
