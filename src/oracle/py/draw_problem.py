# One call of a KernelBench problem.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

import float8
from draw_base import Draw
from float64_place import Cpu
from float64_truth import in_float64
from rounded_numbers import round_attributes
from task_code import no_random_numbers, output_list
from task_error import TaskError
from tensor_values import Change, Noise, Outputs, as_on_device, cloned, to_double, tree_map


def loose_tensors(model: torch.nn.Module) -> list[tuple[str, torch.Tensor, Callable[[torch.Tensor], None]]]:
    """Tensors that the model keeps outside state_dict, with setters: [(name, tensor, set)]."""
    found = []

    def visit(container: Any, key: Any, value: Any, name: str, depth: int = 0) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) in passed:  # nn.LSTM and others list their parameters a second time
                return
            found.append((name, value, lambda t: container.__setitem__(key, t)))
        elif isinstance(value, torch.nn.Module) and not any(value is m for m in registered):
            for n, p in list(value.named_parameters()) + list(value.named_buffers()):
                found.append((name + "." + n, p.data, lambda t, p=p: setattr(p, "data", t)))
        elif isinstance(value, (list, dict)) and depth < 4:
            items = enumerate(value) if isinstance(value, list) else value.items()
            for k, v in list(items):
                visit(value, k, v, "%s[%r]" % (name, k), depth + 1)

    registered = list(model.modules())
    passed = {id(p) for p in model.parameters()}
    for module in registered:
        transient = getattr(module, "_non_persistent_buffers_set", ())
        passed.update(id(b) for n, b in module._buffers.items() if n not in transient)
    for prefix, module in model.named_modules():
        prefix = prefix + "." if prefix else ""
        for name, value in list(module.__dict__.items()):
            if name not in ("_parameters", "_buffers", "_modules"):
                visit(module.__dict__, name, value, prefix + name)
        for name in getattr(module, "_non_persistent_buffers_set", ()):
            if module._buffers.get(name) is not None:
                visit(module._buffers, name, module._buffers[name], prefix + name)
    return found


class ProblemTask(Protocol):
    """The parts of a task that a ProblemDraw uses."""
    spread: Callable[[Any], Any]  # replaces tensors of a draw
    checked: bool  # whether the tensors outside state_dict have been examined

    def construct(self, seed: int) -> tuple[torch.nn.Module, Sequence[Any]]:
        """(module, inputs) of the problem."""

    def warn(self, message: str) -> None:
        """Notes what the user should know about the task."""


class ProblemDraw(Draw):
    """KernelBench: the arguments are the inputs, then parameters and buffers in state_dict order. The
    module runs in train mode unless the problem itself changes the mode."""

    def __init__(self, task: ProblemTask, seed: int, answer: bool = True) -> None:
        super().__init__()
        self.model, inputs = task.construct(seed)
        self.inputs = tuple(tree_map(lambda v: task.spread(as_on_device(v.detach()))
                                     if isinstance(v, torch.Tensor) else v, i) for i in inputs)
        # The module makes its parameters itself, so their layout stays.
        of_state = getattr(task.spread, "values_alone", task.spread)
        for tensor in list(self.model.parameters()) + list(self.model.buffers()):
            tensor.data = of_state(tensor.data)
        state = [v for v in self.model.state_dict().values() if isinstance(v, torch.Tensor)]
        self.args = self.inputs + tuple(as_on_device(v.detach()) for v in state)
        if not answer:
            return
        model, copies = copy.deepcopy(self.model), tree_map(cloned, self.inputs)
        with torch.no_grad(), no_random_numbers(), self.trace.record(copies):
            result = model(*copies)
        self.outputs, self.is_tuple = output_list(result)
        self.names = ["output %d" % i if self.is_tuple else "output"
                      for i in range(len(self.outputs))]
        if not task.checked:
            self.check_loose(task, seed)
            task.checked = True

    def check_loose(self, task: ProblemTask, seed: int) -> None:
        """Tensors outside state_dict are allowed if every construction makes the same ones (masks,
        tables), or if the output does not depend on them."""
        mine = loose_tensors(self.model)
        if not mine:
            return
        state = torch.get_rng_state()
        other, _ = task.construct(seed ^ 0x5DEECE66D)
        torch.set_rng_state(state)
        theirs = {name: tensor for name, tensor, _ in loose_tensors(other)}
        differing = {name for name, tensor, _ in mine
                     if name in theirs and not (theirs[name].shape == tensor.shape and
                                                float8.equal(theirs[name], tensor))}
        names = ", ".join(name for name, _, _ in mine[:4])
        if not differing:
            task.warn("the model keeps tensors outside state_dict (%s); they are the same at every "
                      "construction, so cupel treats them as constants and does not pass them" % names)
            return
        changed = copy.deepcopy(self.model)
        for name, _, put in loose_tensors(changed):
            if name in differing:
                put(theirs[name].clone())
        with torch.no_grad():
            outputs, _ = output_list(changed(*tree_map(cloned, self.inputs)))
        same = all(a is b or (a is not None and b is not None and float8.equal(a, b))
                   for a, b in zip(outputs, self.outputs))
        names = ", ".join(sorted(differing)[:4])
        if not same:
            raise TaskError("the model keeps random tensors outside state_dict (%s) and its output "
                            "depends on them; a kernel cannot get them, so it cannot be a task"
                            % names)
        task.warn("the model keeps random tensors outside state_dict (%s); the output does not depend "
                  "on them" % names)

    def reference(self) -> Outputs:
        return self.outputs

    def truth_at(self, place: Cpu, noise: Noise | Change | None) -> Outputs:
        model = place.put(copy.deepcopy(self.model).double())
        if self.rounds_numbers:
            round_attributes(model)
        for _, tensor, put in loose_tensors(model):
            put(to_double(tensor, place=place))
        if noise is not None:
            for tensor in list(model.parameters()) + list(model.buffers()):
                if tensor.is_floating_point() and callable(noise):
                    tensor.data = noise(tensor.data)
                elif tensor.is_floating_point():
                    # The parameter is float64 now; its original type decides how much to perturb it.
                    tensor.data = perturb_as_float32(tensor.data, noise)
        inputs = self.doubles(self.inputs, noise, place)
        with torch.no_grad(), place.reference(), in_float64(), self.trace.repeat():
            return output_list(model(*inputs))[0]


def perturb_as_float32(tensor: torch.Tensor, noise: Noise) -> torch.Tensor:
    return tensor * noise.factors(tensor, torch.float32)
