# Tests the package: compares the operator, and its gradients if it has them, with the task's reference
# in float64. Tests every setting, with the tolerance that the kernel was judged with, eager and
# through torch.compile(fullgraph=True). SPDX-License-Identifier: Apache-2.0
import inspect
import json
import math
import os
import sys

import torch

from . import ops, support

DEVICE = "cuda"
RMS_FACTOR, MAX_FACTOR = 16, 128  # the limits as multiples of the error scale E of each setting

with open(os.path.join(os.path.dirname(__file__), "settings.json"), encoding="utf-8") as _file:
    SETTINGS = json.load(_file)


def mapped(function, value):
    if isinstance(value, (list, tuple)):
        return tuple(mapped(function, v) for v in value)
    return function(value) if isinstance(value, torch.Tensor) else value


def on_device(value):
    return mapped(lambda t: t.detach().to(DEVICE), value)


def in_double(value):
    return mapped(lambda t: t.double() if t.is_floating_point() else t, value)


def accepted(function, values):
    parameters = inspect.signature(function).parameters
    if any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        return values
    return {k: v for k, v in values.items() if k in parameters}


def draw(module, setting, seed):
    """The positional arguments with which the task's model calls its function."""
    if SETTINGS["format"] == "kernelbench":
        from . import problem
        model, arguments = problem.draw(seed)
        return on_device(arguments), lambda *args: problem.call(model.to(DEVICE).double(), args)
    torch.manual_seed(seed)
    inputs = module.get_inputs(**accepted(module.get_inputs, setting["inputs"]))
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    model = module.Model(**accepted(module.Model.__init__, setting["init"]))
    function = support.function_of(module)
    return on_device(support.passed_arguments(model, inputs, function)), function


def floor_of(dtype):
    """The error that is always allowed: the smallest normal number, since denormals may be flushed."""
    return 2.0 ** -24 if dtype == torch.float16 else torch.finfo(dtype).tiny


def compare(what, got, truth, scale):
    """Raises AssertionError if the error of `got` exceeds the limits with which the kernel was judged."""
    assert got.shape == truth.shape, "%s: shape %s, expected %s" % (what, got.shape, truth.shape)
    if not got.is_floating_point():
        assert torch.equal(got, truth.to(got.dtype)), "%s: integers differ" % what
        return 0.0
    same = (got.double() == truth) | (got.isnan() & truth.isnan())
    off = torch.where(same, torch.zeros_like(truth), (got.double() - truth).abs())
    assert bool(torch.isfinite(off).all()), "%s: infinite or not a number" % what
    rms = math.sqrt(float(off.square().mean())) if off.numel() else 0.0
    largest = float(off.max()) if off.numel() else 0.0
    floor = floor_of(got.dtype)
    share = max(rms / (RMS_FACTOR * scale + floor), largest / (MAX_FACTOR * scale + floor))
    assert share <= 1, ("%s: RMS error %.3g (allowed %.3g), largest %.3g (allowed %.3g)" %
                        (what, rms, RMS_FACTOR * scale + floor, largest, MAX_FACTOR * scale + floor))
    return share


def compare_all(what, got, truth, scales):
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    truth = list(truth) if isinstance(truth, (list, tuple)) else [truth]
    assert len(got) == len(truth), "%s: %d results, expected %d" % (what, len(got), len(truth))
    return max([0.0] + [compare("%s, result %d" % (what, i), g, t, s)
                        for i, (g, t, s) in enumerate(zip(got, truth, scales)) if t is not None])


def check_forward(function, setting, how, seed=0):
    args, reference = draw(ops.reference, setting, seed)
    with torch.no_grad():
        truth = reference(*in_double(args))
        got = function(*args)
    return compare_all("%s %s" % (how, setting["id"]), got, truth, setting["scales"])


def gradients(function, args, wanted, cotangents=None, seed=0):
    args = [a.detach().requires_grad_(True) if i in wanted else a for i, a in enumerate(args)]
    outputs = function(*args)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    outputs = [o for o in outputs if o is not None and o.requires_grad]
    if cotangents is None:
        torch.manual_seed(seed + 1)
        cotangents = [torch.randn(o.shape, dtype=o.dtype).to(o.device) for o in outputs]
    found = torch.autograd.grad(outputs, [args[i] for i in wanted],
                                [c.to(o.dtype) for c, o in zip(cotangents, outputs)])
    return found, cotangents


def check_backward(function, setting, how, seed=0):
    args, reference = draw(ops.reference_backward, setting, seed)
    wanted = SETTINGS["gradients"]
    # The operator computes by itself what the task's model adds to the arguments.
    got, cotangents = gradients(function, args[:SETTINGS["given"]], wanted, seed=seed)
    truth, _ = gradients(reference, in_double(args), wanted, cotangents)
    return compare_all("%s gradients %s" % (how, setting["id"]), got, truth, setting["scales"])


def named(direction, setting):
    """The setting's name, with its sizes if they are smaller than the task's own."""
    return "%s %s%s" % (direction, setting["id"], " at " + setting["reduced"] if setting["reduced"] else "")


def compiled():
    torch._dynamo.reset()
    return torch.compile(ops.call, fullgraph=True)


def check_all(report=print):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    for setting in SETTINGS["forward"]:
        share = check_forward(ops.call, setting, "eager")
        share = max(share, check_forward(compiled(), setting, "compiled"))
        report("%s: correct, eager and compiled; %.2g %% of the error limit" %
               (named("forward", setting), 100 * share))
    for setting in SETTINGS["backward"]:
        share = check_backward(ops.call, setting, "eager")
        share = max(share, check_backward(compiled(), setting, "compiled"))
        report("%s: correct, eager and compiled; %.2g %% of the error limit" %
               (named("backward", setting), 100 * share))
    setting = SETTINGS["forward"][0]
    args, _ = draw(ops.reference, setting, 0)
    args = [a.requires_grad_(True) if i in SETTINGS["gradients"] else a for i, a in enumerate(args)]
    torch.library.opcheck(ops.forward_op, tuple(args), test_utils=(
        "test_schema", "test_autograd_registration", "test_faketensor"))
    report("torch.library.opcheck: schema, autograd and fake implementation agree")


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("not tested: this machine has no CUDA GPU")
        return 2
    check_all()
    print("passed on %s, PyTorch %s" % (torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE,
                                        torch.__version__))
    return 0


if __name__ == "__main__":
    sys.exit(main())
