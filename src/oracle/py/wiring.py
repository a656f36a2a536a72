#!/usr/bin/env python3
# Finds how a task's function is called, for an operator that replaces it: the kinds of its arguments at
# every setting, and where the arguments of backward_fn come from. Runs task code and uses oracle.py's
# draws. One JSON request on stdin, one JSON reply on stdout.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import os
import sys

oracle = support = torch = None  # loaded by main()


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def describe(value):
    """The description of one argument that an operator's schema needs."""
    if value is None:
        return {"kind": "none"}
    for kind, type_ in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(value, type_):
            return {"kind": kind}
    if isinstance(value, (list, tuple)):
        return {"kind": "tuple", "items": [describe(v) for v in value]}
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "dtype": oracle.dtype_name(value.dtype),
                "dense": value.is_contiguous()}
    raise oracle.TaskError("an argument has the unsupported type %s" % type(value).__name__)


class MarkedInt(int):
    """An int that is distinguishable from an equal one by identity, as floats are."""


class MarkedStr(str):
    """A str that is distinguishable from an equal one by identity."""


def marked(value):
    if isinstance(value, (list, tuple)):
        return tuple(marked(v) for v in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return MarkedInt(value)
    return MarkedStr(value) if isinstance(value, str) else value


def paths(values, prefix=()):
    for i, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            yield from paths(value, prefix + (i,))
        yield prefix + (i,), value


def same_tensor(a, b):
    return (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.numel() > 0
            and a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
            and a.dtype == b.dtype)


def is_distinct(value):
    """True if its identity shows its origin. None, True and small plain integers are shared objects."""
    return isinstance(value, (float, MarkedInt, MarkedStr))


class Probe:
    """One backward draw that keeps the outputs of the forward pass."""

    def __init__(self, task, setting):
        probe = self

        class Keeping(oracle.BackwardDraw):
            def capture_forward(self, *args):
                return marked(super().capture_forward(*args))

            def run_forward(self, autograd, context):
                output = super().run_forward(autograd, context)
                probe.outputs = oracle.output_list(output)[0]
                return output

        oracle.seed_everything(1)
        task.spread = oracle.unchanged
        self.draw = Keeping(task, setting["init"], setting["inputs"])

    def source(self, value, path):
        """The origin of one argument of backward_fn, or None for a tensor of unknown origin."""
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor)
                                                    for v in oracle.leaves(value)):
            items = [self.source(v, path + (i,)) for i, v in enumerate(value)]
            return None if None in items else ["tuple", items]
        for i, grad in enumerate(self.draw.grads):
            if same_tensor(grad, value):
                return ["grad", i]
        for place, given in paths(self.draw.inputs):
            if same_tensor(given, value) or (given is value and is_distinct(value)):
                return ["input", list(place)]
        for i, output in enumerate(self.outputs):
            if same_tensor(output, value):
                return ["output", [i]]
        return None if isinstance(value, torch.Tensor) else ["derived", list(path)]

    def sources(self):
        return [self.source(v, (i,)) for i, v in enumerate(self.draw.args)]


def derives_from_shapes(task, probe, sources):
    """True if the task's autograd function gives the same numbers on tensors without data."""
    wiring = support.Wiring(None, sources, [], len(probe.draw.inputs), task.autograd)
    wanted = list(wiring.wanted(sources, "derived"))
    if not wanted:
        return True
    try:
        found = wiring.derived(probe.draw.inputs)
        for path in wanted:
            got, want = support.at(found, path), support.at(probe.draw.args, path)
            if isinstance(got, torch.Tensor) or oracle.tree_map(lambda v: v, got) != want:
                return False
    except Exception:  # PyTorch cannot infer shapes for an operation, or the code reads data
        return False
    return True


def look_backward(task, settings):
    reply = {"settings": [], "recompute": False, "sources": None}
    for setting in settings:
        probe = Probe(task, setting)
        draw, sources = probe.draw, probe.sources()
        if None in sources or not derives_from_shapes(task, probe, sources):
            reply["recompute"] = True
        if reply["sources"] not in (None, sources):
            reply["recompute"] = True
        reply["sources"] = sources
        gradients = [{"input": i, "dtype": None if i is None else
                      oracle.dtype_name(draw.inputs[i].dtype)} for i in draw.wanted]
        reply["settings"].append({
            "id": setting["id"], "args": [describe(v) for v in draw.args],
            "inputs": [describe(v) for v in draw.inputs], "gradients": gradients})
    return reply


def look_forward(task, settings):
    reply = {"settings": []}
    for setting in settings:
        draw = task.draw(1, setting["init"], setting["inputs"])
        reply["settings"].append({
            "id": setting["id"], "args": [describe(v) for v in draw.args],
            "is_tuple": draw.is_tuple, "outputs": [o is not None for o in draw.reference()]})
    return reply


def look(request):
    path = request["path"]
    try:
        action = look_backward if request["direction"] == "backward" else look_forward
        with oracle.cuda_on_cpu.OnCpu():
            return action(oracle.Task(request), request["settings"])
    except Exception as error:
        return {"failure": oracle.describe(error, path)}
    except (SystemExit, oracle.Captured) as error:
        return {"failure": oracle.describe(error, path)}


def main():
    global oracle, support, torch
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    request = json.load(sys.stdin)
    os.dup2(2, 1)  # task code prints to stderr
    import torch as imported
    torch = imported
    here = os.path.dirname(os.path.abspath(__file__))
    oracle = load(os.path.join(here, "oracle.py"), "cupel_oracle")
    oracle.use(torch)
    support = load(os.path.join(here, os.pardir, os.pardir, "report", "package", "support.py"),
                   "cupel_package_support")
    reply = {direction: look(part) for direction, part in request.items()}
    channel.write(json.dumps(reply))
    channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
