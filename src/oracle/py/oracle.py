#!/usr/bin/env python3
# The oracle: the only process that runs task code to make cases. It is a child of cupel and uses the
# user's PyTorch. It reduces a task (forward, backward, KernelBench problem) to cases: the positional
# arguments of the function to write, PyTorch's own result, the float64 truth, and the error scale E
# (docs/formats/case.md). Protocol: one JSON object per line on stdin and stdout; cases are files in a
# private folder. Works with PyTorch 2.4 and later; needs only PyTorch and the task's own imports.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import contextlib
import copy
import ctypes
import hashlib
import importlib.util
import inspect
import json
import math
import mmap
import os
import queue
import random
import shutil
import signal
import sys
import threading
import time
import traceback

# Set by use(). serve() calls it only when task code can no longer reach the protocol's descriptors.
torch = cuda_on_cpu = dtype_trace = float64_place = float8 = memory_limit = None

SHARE_OF_MEMORY = 0.5  # of the free memory, without a GPU: the case file needs as much as its tensors
TOO_LARGE = ("it needs more than half of the free memory; use smaller sizes: those in task.json "
             "(emulator_forward), or those that cupel task import finds for a problem file")

MAX_GRADIENTS = 16  # sizes of sentinel tuples tried for backward_fn's result
SCALE_DRAWS = 8  # draws pooled for E, fewer for huge outputs
STEADY_ATTEMPTS = 8  # draws of a backward case, until no gradient depends on rounding
MOVE, MOVES = 2.0 ** -22, 2  # to detect that: the relative change of the inputs, and the number of tries
UNEVEN = 1 / 16  # of the largest change: how much the two directions may differ
NOTHING = 2.0 ** -40  # of the largest gradient: smaller changes are float64's own rounding
HASH_CHUNK = 16 << 20  # docs/formats/case.md: digest of digests
HASHED_BYTES = 96 << 20  # larger cases are never pooled: their description identifies them


class TaskError(Exception):
    """The task's own code fails, or it cannot be a task. str() says why."""


# --- values ---------------------------------------------------------------------------------------


def tree_map(f, value):
    """Applies f to the leaves of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(tree_map(f, v) for v in value)
    return f(value)


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def roundoff(dtype):
    """Unit roundoff u: half the spacing at 1."""
    return torch.finfo(dtype).eps / 2


def step_of(dtype):
    """The relative amount by which inputs of a type are moved: 4u, at most that of bfloat16, since larger
    moves would show more than the result's slope."""
    return min(4 * roundoff(dtype), 2.0 ** -6)


def unchanged(value):
    return value


def as_on_device(tensor):
    """Gives the tensor the strides that `.to("cuda")` gives: keeps dense ones, else contiguous."""
    return tensor if tensor.is_contiguous() else tensor.clone(memory_format=torch.preserve_format)


def detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def cloned(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def random_bits(tensor, generator):
    """0 or 1 for each element of the tensor, as float64 on its device. bernoulli_ is ten times slower."""
    count = tensor.numel()
    octets = torch.empty(-(-count // 8), dtype=torch.uint8).random_(0, 256, generator=generator)
    masks = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)
    octets, masks = (float64_place.to_place_of(t, tensor) for t in (octets, masks))
    bits = octets.unsqueeze(1).bitwise_and(masks).ne(0)
    return bits.reshape(-1)[:count].to(torch.float64).reshape(tensor.shape)


class Noise:
    """Moves each element by step_of() its own type, or by `relative`, with random signs. With direction -1,
    the signs are the opposite of those with 1."""

    def __init__(self, seed, direction=1, relative=None):
        self.generator, self.direction, self.relative = torch.Generator(), direction, relative
        self.generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)

    def factors(self, tensor, dtype):
        step = self.direction * (self.relative or step_of(dtype))
        return random_bits(tensor, self.generator).mul_(2 * step).add_(1 - step)


def to_double(value, noise=None, place=None):
    """A float64 copy at `place`, perturbed by `noise`: a Noise (2^-22 for float32) or a function of the
    float64 tensor."""
    if not isinstance(value, torch.Tensor):
        return value
    value = (place or float64_place.CPU).put(value.detach())
    if not value.is_floating_point():
        return value.clone()
    result = value.to(torch.float64, copy=True)
    if callable(noise):
        return noise(result)
    if noise is not None:
        result *= noise.factors(result, value.dtype)
    return result


# --- float64 truth --------------------------------------------------------------------------------


@contextlib.contextmanager
def in_float64():
    """Turns casts to the shorter floating-point types, and new tensors of these types, into float64. Code
    with `x.float()` then still computes the truth."""
    from torch.utils._python_dispatch import TorchDispatchMode

    low = (torch.float32, torch.float16, torch.bfloat16) + float8.TYPES

    def raise_value(value):
        if isinstance(value, torch.dtype):
            return torch.float64 if value in low else value
        if isinstance(value, torch.Tensor) and value.dtype in low:
            return value.to(torch.float64)
        if isinstance(value, (list, tuple)):
            return type(value)(raise_value(v) for v in value)
        return value

    class Float64(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = str(func)
            if name.startswith("aten.view.dtype"):
                raise TaskError("the reference reinterprets the bits of a tensor "
                                "(Tensor.view(dtype)), so it has no float64 truth")
            kwargs = dict(kwargs or {})
            schema = getattr(func, "_schema", None)
            written = set()
            if schema is not None:
                for i, a in enumerate(schema.arguments):
                    if a.alias_info is not None and a.alias_info.is_write:
                        written.update((i, a.name))
            args = tuple(a if i in written else raise_value(a) for i, a in enumerate(args))
            kwargs = {k: a if k in written else raise_value(a) for k, a in kwargs.items()}
            if name in float8.FORMS:
                return float8.in_float64(name, args, kwargs)
            result = func(*args, **kwargs)
            return result if written else raise_value(result)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Float64():
            yield
    finally:
        torch.set_default_dtype(before)


# --- task code ------------------------------------------------------------------------------------


def load_module(path):
    name = "cupel_task_" + hashlib.sha256(path.encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise TaskError("%s is not a Python file" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look here
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def accepted_keys(function, values):
    """(keyword arguments that the signature accepts, names of the others)."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return dict(values), []
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return ({k: v for k, v in values.items() if k in names},
            [k for k in values if k not in names])


def seed_everything(seed):
    torch.manual_seed(seed & 0xFFFFFFFFFFFFFFFF)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)


def seed_from(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def randomness():
    state = [bytes(torch.get_rng_state().numpy().tobytes()), random.getstate()]
    if "numpy" in sys.modules:
        state.append(sys.modules["numpy"].random.get_state()[1].tobytes())
        state.append(sys.modules["numpy"].random.get_state()[2])
    return state


@contextlib.contextmanager
def no_random_numbers():
    before = randomness()
    yield
    if randomness() != before:
        raise TaskError("the reference draws random numbers (dropout in train mode, torch.randn …), "
                        "so it has no single correct result; it cannot be a task")


def output_list(result):
    """(outputs, is_tuple). Raises TaskError unless all outputs are tensors or None."""
    many = isinstance(result, (list, tuple))
    outputs = list(result) if many else [result]
    for output in outputs:
        if output is not None and not isinstance(output, torch.Tensor):
            raise TaskError("the reference returns a %s; it must return a tensor or a flat tuple of "
                            "tensors" % type(output).__name__)
    if not any(isinstance(o, torch.Tensor) for o in outputs):
        raise TaskError("the reference returns no tensor")
    return outputs, many


class Draw:
    """One call of the function: its arguments (`args`), and both results. Without `answer`, it may have
    only the inputs, which are the same."""
    args = ()  # the candidate's arguments
    names = ()  # of the outputs
    outputs = ()  # if they are already known after the draw
    is_tuple = False

    def __init__(self):
        self.copies = {}  # of the call's tensors where the truth is computed, by id()
        self.trace = dtype_trace.Trace()  # of the reference

    def reference(self):
        """List of tensors or None: PyTorch's own results."""
        raise NotImplementedError

    def truth(self, noise=None):
        """The results in float64, optionally of perturbed inputs."""
        self.reference()  # makes the trace
        tensors = [v for v in leaves((self.args, self.outputs)) if isinstance(v, torch.Tensor)]
        place = float64_place.place_for(sum(t.numel() for t in tensors))
        with place.work():
            return self.truth_at(place, noise)

    def truth_at(self, place, noise):
        raise NotImplementedError

    def doubles(self, values, noise, place):
        """Float64 copies of the values. Copies on a GPU are kept for the next truth, because the transfer
        takes longer than most computations."""
        def double(value):
            if place is float64_place.CPU or not isinstance(value, torch.Tensor):
                return to_double(value, noise)
            if id(value) not in self.copies:
                self.copies[id(value)] = place.put(value.detach())
            return to_double(self.copies[id(value)], noise, place)
        return tree_map(double, values)


class ForwardDraw(Draw):
    """robust-kbench forward: the arguments that Model.forward passes to `fn`."""

    def __init__(self, task, init, inputs, answer=True):
        super().__init__()
        self.function = task.function
        calls = []

        def record(*args, **kwargs):
            if kwargs:
                bound = inspect.signature(self.function).bind(*args, **kwargs)
                args = bound.args
                if bound.kwargs:
                    raise TaskError("Model.forward passes keyword-only arguments to fn")
            args = tuple(tree_map(task.spread, tree_map(detached, a)) for a in args)
            if not answer:
                calls.append((args, None))
                raise Captured()
            copies = tree_map(cloned, args)
            with no_random_numbers(), self.trace.record():
                result = self.function(*copies)
            calls.append((args, result))
            return result

        with torch.no_grad():
            model, arguments = task.build(init, inputs)
            try:
                model(*arguments, fn=record)
            except Captured:
                pass
        if len(calls) != 1:
            raise TaskError("Model.forward calls fn %d times; a case is one call" % len(calls))
        self.args, result = calls[0]
        if not answer:
            return
        self.outputs, self.is_tuple = output_list(result)
        self.names = ["output %d" % i if self.is_tuple else "output"
                      for i in range(len(self.outputs))]

    def reference(self):
        return self.outputs

    def truth_at(self, place, noise):
        args = self.doubles(self.args, noise, place)
        with torch.no_grad(), place.reference(), in_float64(), self.trace.repeat():
            return output_list(self.function(*args))[0]


class Context:
    """A replacement for the ctx that autograd passes to Function.forward and Function.backward."""

    def __init__(self, count):
        self.saved_tensors = ()
        self.needs_input_grad = (True,) * count

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    @property
    def saved_variables(self):
        return self.saved_tensors

    def save_for_forward(self, *tensors):
        pass

    def mark_dirty(self, *tensors):
        pass

    def mark_non_differentiable(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        pass


class Sentinel:
    """A placeholder for one result of backward_fn, to find where `backward` returns it."""


class Captured(BaseException):
    """Ends Model.forward once its call of fn is known."""


class BackwardDraw(Draw):
    """robust-kbench backward: the arguments that AutogradFunction.backward passes to backward_fn."""

    def __init__(self, task, init, inputs, answer=True):
        super().__init__()
        self.function = task.function
        self.inputs = tree_map(task.spread, self.capture_forward(task, init, inputs))
        context = Context(len(self.inputs))
        output = self.run_forward(task.autograd, context)
        outputs, self.many = output_list(output)
        self.grads = [None if o is None or not o.is_floating_point()
                      else task.spread(float8.like(o, torch.randn(o.shape))) for o in outputs]
        self.wanted = self.capture_backward(task.autograd, context)
        names = list(inspect.signature(self.function).parameters)
        self.names = [
            "no gradient" if i is None else
            "gradient of %s" % (names[i] if i < len(names) else "input %d" % i)
            for i in self.wanted]

    def capture_forward(self, task, init, inputs):
        seen = []

        def record(*args, **kwargs):
            seen.append(inspect.signature(self.function).bind(*args, **kwargs).args)
            raise Captured()

        with torch.no_grad():
            model, arguments = task.build(init, inputs)
            try:
                model(*arguments, fn=record)
            except Captured:
                pass
        if not seen:
            raise TaskError("Model.forward never calls fn")
        return tuple(tree_map(detached, a) for a in seen[0])

    def run_forward(self, autograd, context):
        args = tree_map(detached, self.inputs)
        with torch.no_grad(), no_random_numbers():
            if autograd.setup_context is not torch.autograd.Function.setup_context:
                output = autograd.forward(*args)
                autograd.setup_context(context, args, output)
                return output
            return autograd.forward(context, *args)

    def capture_backward(self, autograd, context):
        """Makes backward_fn return one sentinel, then tuples of sentinels, until backward accepts them.
        Returns, for each result of backward_fn, the index of the input whose gradient it is."""
        error = None
        grads = self.grads if self.many else self.grads[:1]
        before = autograd.backward_fn if hasattr(autograd, "backward_fn") else None
        for count in range(MAX_GRADIENTS + 1):
            sentinels = tuple(Sentinel() for _ in range(max(count, 1)))
            calls = []

            def record(*args, **kwargs):
                if kwargs:
                    raise TaskError("backward passes keyword arguments to backward_fn")
                calls.append(args)
                return sentinels if count else sentinels[0]

            autograd.backward_fn = record
            try:
                with torch.no_grad():
                    result = autograd.backward(context, *grads)
            except TaskError:
                raise
            except Exception as e:  # the wrong number of sentinels, or a task that computes with
                error = e           # backward_fn's results
                continue
            finally:
                autograd.backward_fn = before
            if len(calls) != 1:
                raise TaskError("backward calls backward_fn %d times; a case is one call" % len(calls))
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            extra = result[len(self.inputs):]
            if len(result) < len(self.inputs) or any(r is not None for r in extra):
                error = error or TaskError("backward returns %d gradients for %d inputs" %
                                           (len(result), len(self.inputs)))
                continue
            self.args = tuple(tree_map(detached, a) for a in calls[0])
            self.is_tuple = count > 0
            places = [next((i for i, r in enumerate(result) if r is s), None) for s in sentinels]
            if all(p is None for p in places):
                raise TaskError("backward does not return what backward_fn computes")
            return places
        raise TaskError("cannot find the number of results of backward_fn: none up to %d works (%s)" %
                        (MAX_GRADIENTS, error))

    def gradients(self, inputs, grads):
        """autograd's gradients of the wanted inputs."""
        inputs = list(inputs)
        for i in {i for i in self.wanted if i is not None}:
            if not is_float(inputs[i]):
                raise TaskError("backward returns a gradient for input %d, which is not a floating-point "
                                "tensor" % i)
            inputs[i] = inputs[i].detach().requires_grad_(True)
        with torch.enable_grad():
            result = self.function(*inputs)
            outputs = list(result) if isinstance(result, (list, tuple)) else [result]
            pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
            order = sorted({i for i in self.wanted if i is not None})
            if not pairs:
                raise TaskError("no output of forward_fn depends on an input that needs a gradient")
            found = torch.autograd.grad([o for o, _ in pairs], [inputs[i] for i in order],
                                        [g for _, g in pairs], allow_unused=True)
        by_input = {i: torch.zeros_like(inputs[i]) if g is None else g.detach()
                    for i, g in zip(order, found)}
        return [None if i is None else by_input[i] for i in self.wanted]

    def reference(self):
        if not self.outputs:
            inputs = tree_map(cloned, self.inputs)
            with cuda_on_cpu.OnCpu(), self.trace.record():
                self.outputs = self.gradients(inputs, self.grads)
        return self.outputs

    def truth_at(self, place, noise):
        inputs = self.doubles(self.inputs, noise, place)
        grads = self.doubles(self.grads, noise, place)
        with place.reference(), in_float64(), self.trace.repeat():
            return self.gradients(inputs, grads)


# --- KernelBench problems -------------------------------------------------------------------------


def loose_tensors(model):
    """Tensors that the model keeps outside state_dict, with setters: [(name, tensor, set)]."""
    found = []

    def visit(container, key, value, name, depth=0):
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


class ProblemDraw(Draw):
    """KernelBench: the arguments are the inputs, then parameters and buffers in state_dict order. The
    module runs in train mode unless the problem itself changes the mode."""

    def __init__(self, task, seed, answer=True):
        super().__init__()
        self.model, inputs = task.construct(seed)
        self.inputs = tuple(tree_map(lambda v: task.spread(as_on_device(v.detach()))
                                     if isinstance(v, torch.Tensor) else v, i) for i in inputs)
        for tensor in list(self.model.parameters()) + list(self.model.buffers()):
            tensor.data = task.spread(tensor.data)
        state = [v for v in self.model.state_dict().values() if isinstance(v, torch.Tensor)]
        self.args = self.inputs + tuple(as_on_device(v.detach()) for v in state)
        if not answer:
            return
        model, copies = copy.deepcopy(self.model), tree_map(cloned, self.inputs)
        with torch.no_grad(), no_random_numbers(), self.trace.record():
            result = model(*copies)
        self.outputs, self.is_tuple = output_list(result)
        self.names = ["output %d" % i if self.is_tuple else "output"
                      for i in range(len(self.outputs))]
        if not task.checked:
            self.check_loose(task, seed)
            task.checked = True

    def check_loose(self, task, seed):
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

    def reference(self):
        return self.outputs

    def truth_at(self, place, noise):
        model = place.put(copy.deepcopy(self.model).double())
        for name, tensor, put in loose_tensors(model):
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


def perturb_as_float32(tensor, noise):
    return tensor * noise.factors(tensor, torch.float32)


class Task:
    def __init__(self, request):
        self.path, self.direction = request["path"], request["direction"]
        self.name, self.hash = request["name"], request["hash"]
        self.is_problem = request["format"] == "kernelbench"
        self.warnings, self.checked = [], False
        self.on_cpu = False  # True if the GPU cannot compute its truth
        self.scales = {}
        self.spread = unchanged
        self.module = load_module(self.path)
        self.model_class = self.need("Model", "class Model(nn.Module)")
        self.get_inputs = self.need("get_inputs", "get_inputs() that returns the inputs")
        if self.is_problem:
            return
        parameter = inspect.signature(self.model_class.forward).parameters.get("fn")
        if parameter is None:
            raise TaskError("%s: Model.forward has no parameter `fn`, the function to replace" % self.path)
        self.function = parameter.default
        if not callable(self.function):
            self.function = self.need("forward_fn", "forward_fn, the reference")
        if self.direction == "backward":
            self.autograd = self.need("AutogradFunction", "class AutogradFunction(Function)")

    def need(self, name, what):
        if not hasattr(self.module, name):
            raise TaskError("%s does not define %s" % (self.path, what))
        return getattr(self.module, name)

    def warn(self, message):
        if message not in self.warnings:
            self.warnings.append(message)

    def build(self, init, inputs):
        """(model, arguments) of a folder task. Both use one stream of random numbers, so that the weights
        do not repeat the inputs."""
        init_kept, init_dropped = accepted_keys(self.model_class.__init__, init)
        inputs_kept, inputs_dropped = accepted_keys(self.get_inputs, inputs)
        for key in init_dropped:
            if key not in inputs_kept:  # a shared key may be accepted by only one of them
                self.warn("the configuration has %r, which Model does not accept; ignored" % key)
        for key in inputs_dropped:
            if key not in init_kept:
                self.warn("the configuration has %r, which get_inputs does not accept; ignored" % key)
        arguments = self.get_inputs(**inputs_kept)
        if not isinstance(arguments, (list, tuple)):
            arguments = [arguments]
        arguments = [tree_map(lambda v: as_on_device(v.detach())
                              if isinstance(v, torch.Tensor) else v, a) for a in arguments]
        return self.model_class(**init_kept), arguments

    def construct(self, seed):
        """(model, inputs) of a KernelBench problem."""
        seed_everything(seed)
        inputs = self.get_inputs()
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        if (isinstance(init, (list, tuple)) and len(init) == 2 and isinstance(init[0], (list, tuple))
                and isinstance(init[1], dict)):
            return self.model_class(*init[0], **init[1]), inputs
        if isinstance(init, dict):
            return self.model_class(**init), inputs
        return self.model_class(*init), inputs

    def draw(self, seed, init, inputs, spread=unchanged, answer=True):
        """`spread`: replaces the tensors that the task draws (distributions.py)."""
        seed_everything(seed)
        self.spread = spread
        with cuda_on_cpu.OnCpu():
            if self.is_problem:
                return ProblemDraw(self, seed, answer)
            kind = BackwardDraw if self.direction == "backward" else ForwardDraw
            return kind(self, init, inputs, answer)


# --- error scale ----------------------------------------------------------------------------------


def squares(a, b=None):
    """(sum of squares of a-b over finite elements, their number, the largest magnitude). If `a` is float8,
    without its own rounding. Works in chunks to limit memory."""
    a = a.detach().reshape(-1)
    b = None if b is None else b.detach().reshape(-1)
    place = float64_place.place_of(a, b)
    total, count, largest = 0.0, 0, 0.0
    with place.work():
        for start in range(0, a.numel(), place.chunk):
            end = start + place.chunk
            d = place.put(a[start:end])
            if b is not None:
                other = place.put(b[start:end]).to(torch.float64)
                d = float8.nearest(d, other) if float8.is_float8(d.dtype) else d
                d = d.to(torch.float64) - other
            d = d.to(torch.float64)
            part = float(d.dot(d))
            if not math.isfinite(part):
                d = d[torch.isfinite(d)]
                part = float(d.dot(d))
            count += d.numel()
            total += part
            if d.numel():
                low, high = torch.aminmax(d)
                largest = max(largest, -float(low), float(high))
    return total, count, largest


PEAK_SHARE = 32  # a kernel may exceed the largest of PyTorch's own errors fourfold: 128 E / 32


def float32_share(draw):
    """Inputs are moved by the step of their own types (step_of). Returns the step of float32 as a share of the
    largest of these steps; at most 1."""
    types = {v.dtype for v in leaves(draw.args) if is_float(v)}
    return min([1.0] + [step_of(torch.float32) / step_of(t) for t in types])


FLOAT8_ALLOWED, FLOAT8_SPREAD = 1.5, 3  # see own_share
FLOAT8_IGNORED = 2.0 ** -9  # of the output's scale


def own_share(draw, own, largest, size, count):
    """The share of PyTorch's own error that E takes, for an output of `count` elements with RMS error `own`,
    largest error `largest` and RMS `size`. If the reference rounds to float8, which the truth does not, most
    of PyTorch's error is that rounding. A kernel repeats it, but makes no larger error, so 16 E are 1.5 times
    PyTorch's error, and more if few elements make most of the error, since it then varies."""
    if not draw.trace.rounds_to_float8 or own == 0:
        return 1.0
    allowed = FLOAT8_ALLOWED + FLOAT8_SPREAD * largest / own / math.sqrt(max(count, 1))
    return min(1.0, max(allowed / 16, FLOAT8_IGNORED * size / own))


def least_error(dtype):
    """The lower limit of E as a share of the output's scale: 4u. For 16-bit types u/2, because their
    kernels compute in float32 and round once; 4u of 16-bit types would accept 8-bit floats. Float8 counts
    as float16, since its own rounding is left out of errors."""
    u = roundoff(torch.float16 if float8.is_float8(dtype) else dtype)
    return 4 * u if u <= roundoff(torch.float32) else u / 2


def depends_on_rounding(draw, truth, seed, move=MOVE):
    """True if the inputs lie within rounding of a kink (ReLU's zero, the larger of two values) and a
    gradient depends on the side: moving the inputs in opposite directions changes it unequally."""
    if not isinstance(draw, BackwardDraw):
        return False
    for signs in range(seed, seed + MOVES):
        moved, opposite = (draw.truth(Noise(signs, direction, move)) for direction in (1, -1))
        if any(is_uneven(*triple) for triple in zip(truth, moved, opposite)):
            return True
    return False


def is_uneven(truth, moved, opposite):
    if truth is None or truth.numel() == 0:
        return False
    with float64_place.place_of(truth).work():
        ahead, behind = (moved - truth).nan_to_num(0), (opposite - truth).nan_to_num(0)
        effect = max(float(ahead.abs().max()), float(behind.abs().max()))
        uneven = float((ahead + behind).abs().max())
        return (uneven > UNEVEN * effect and
                effect > NOTHING * float(truth.nan_to_num(0).abs().max()))


def steady_draw(task, seed, init, inputs):
    """(draw, truth) of the seed, or of the first seed derived from it whose gradients do not depend on
    rounding. Correct kernels that sum in another order could differ on the others."""
    for attempt in range(STEADY_ATTEMPTS):
        draw = task.draw(seed, init, inputs)
        truth = draw.truth()
        if not depends_on_rounding(draw, truth, seed):
            return draw, truth
        seed = seed_from("steadier draw|%d|%d" % (seed, attempt))
    task.warn("in each of %d draws a gradient depends on the sign of a number that is zero except for "
              "rounding (ReLU, a maximum): a correct kernel may differ there" % STEADY_ATTEMPTS)
    return draw, truth


def error_scales(task, init, inputs, report):
    """E of each output (docs/judging.md), from separate draws so that it does not vary with the trials.
    E is the maximum of: PyTorch's pooled RMS error, the RMS effect of perturbed inputs (as if they were
    float32), the least error, and a share of the largest of all these. The returned list then has the
    second term of each output, the conditioning."""
    key = json.dumps([init, inputs], sort_keys=True)
    if key in task.scales:
        return task.scales[key]
    sums, draws, i = None, SCALE_DRAWS, 0
    while i < draws:
        seed = seed_from("error scale|%s|%s|%d" % (task.hash, key, i))
        draw, truth = steady_draw(task, seed, init, inputs)
        reference, perturbed = draw.reference(), draw.truth(Noise(seed))
        sums = sums or [[0.0] * 9 for _ in reference]
        for s, r, t, p in zip(sums, reference, truth, perturbed):
            if r is None or not r.is_floating_point():
                continue
            for j, (a, b) in enumerate(((r, t), (p, t), (t, None))):
                total, count, largest = squares(a, b)
                s[3 * j] += total
                s[3 * j + 1] += count
                s[3 * j + 2] = max(s[3 * j + 2], largest)
        if i == 0:
            draws = enough_draws(reference)
        i += 1
        report("error scale, draw %d of %d" % (i, draws))
    scales, conditions = [], []
    for s, r in zip(sums, reference):
        if r is None or not r.is_floating_point():
            scales.append(0.0)
            conditions.append(0.0)
            continue
        own, perturbed, size = (math.sqrt(s[j] / s[j + 1]) if s[j + 1] else 0.0 for j in (0, 3, 6))
        share, least = float32_share(draw), least_error(r.dtype)
        perturbed *= share
        part = own_share(draw, own, s[2], size, r.numel())
        peak = max(part * s[2], share * s[5], least * s[8])
        scales.append(max(part * own, perturbed, least * size, peak / PEAK_SHARE))
        conditions.append(perturbed)
        if part < 1:
            task.warn("the reference rounds to float8, which changes the result by a relative %.1g; the "
                      "tolerance allows %.2g times that" % (own / size if size else math.inf, 16 * part))
        elif own > 2048 * roundoff(r.dtype) * size and own > perturbed:
            task.warn("PyTorch's own result differs from the float64 truth by %.1g (relative %.1g); the "
                      "tolerance follows it" % (own, own / size if size else math.inf))
    task.scales[key] = (scales + conditions, draws)
    return task.scales[key]


def enough_draws(outputs):
    """SCALE_DRAWS, or fewer if the outputs are so large that one draw is a good sample."""
    sizes = [o.numel() for o in outputs if o is not None and o.is_floating_point()]
    total = sum(sizes)
    if not sizes or SCALE_DRAWS * total <= 1 << 24 or min(sizes) < 1 << 11:
        return SCALE_DRAWS
    return 1 if total >= 1 << 25 else max(2, -(-(1 << 24) // total))


# --- case files -----------------------------------------------------------------------------------

DTYPES = {  # torch name -> (safetensors name, bytes)
    "float64": ("F64", 8), "int64": ("I64", 8), "float32": ("F32", 4), "int32": ("I32", 4),
    "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int16": ("I16", 2), "int8": ("I8", 1),
    "uint8": ("U8", 1), "bool": ("BOOL", 1), "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
}


def dtype_name(dtype):
    name = str(dtype).replace("torch.", "")
    if name not in DTYPES:
        raise TaskError("a tensor has type %s, which cupel does not support" % name)
    return name


def storage_bytes(tensor):
    return tensor.untyped_storage().nbytes()


class CaseFile:
    """Writes a case: a safetensors file with the case's description in __metadata__."""

    def __init__(self):
        self.tensors = []  # (name, flat tensor, shape)

    def add(self, name, tensor, shape):
        self.tensors.append((name, tensor, list(shape)))

    def value(self, v):
        """Describes one argument. Stores whole storages of tensors, to keep their strides."""
        if v is None:
            return {"kind": "none"}
        if isinstance(v, bool):
            return {"kind": "bool", "value": v}
        if isinstance(v, int):
            return {"kind": "int", "value": str(v)}
        if isinstance(v, float):
            return {"kind": "float", "value": v.hex()}
        if isinstance(v, str):
            return {"kind": "string", "value": v}
        if isinstance(v, (list, tuple)):
            return {"kind": "tuple", "items": [self.value(x) for x in v]}
        if isinstance(v, torch.Tensor):
            return self.tensor_argument(v)
        if hasattr(v, "item") and getattr(v, "shape", None) == ():  # numpy scalars
            return self.value(v.item())
        raise TaskError("an argument is a %s; a kernel can only get tensors, None, numbers, strings and "
                        "tuples" % type(v).__name__)

    def tensor_argument(self, t):
        if t.layout != torch.strided or t.device.type != "cpu":
            raise TaskError("an argument is a %s tensor on %s; cases support dense CPU tensors only" %
                            (t.layout, t.device))
        if t.is_conj() or t.is_neg():
            t = t.clone()
        name = "storage.%d" % len(self.tensors)
        flat, strides, offset = t.detach(), list(t.stride()), t.storage_offset()
        if t.is_contiguous() and offset == 0:
            flat = flat.reshape(-1)
        elif t.numel() == 0:
            flat, offset = flat.reshape(-1), 0
        else:
            flat = flat.as_strided((storage_bytes(t) // t.element_size(),), (1,), 0)
        self.add(name, flat, flat.shape)
        return {"kind": "tensor", "storage": name, "dtype": dtype_name(t.dtype),
                "shape": list(t.shape), "strides": strides, "offset": offset}

    def output(self, i, name, reference, truth, scale, conditioning, rounds_to_float8):
        if reference is None:
            return {"name": name, "none": True}
        if truth is None or truth.shape != reference.shape:
            raise TaskError("%s: the float64 run and the reference give different shapes" % name)
        exact = not reference.is_floating_point()
        with float64_place.place_of(truth).work():
            truth = truth.to(reference.dtype if exact else torch.float64).cpu()
        if float8.is_float8(reference.dtype):
            truth, rounds_to_float8 = float8.held(truth, reference.dtype), True
        keys = {}
        for what, tensor in (("reference", reference), ("truth", truth)):
            keys[what] = "output.%d.%s" % (i, what)
            self.add(keys[what], tensor.detach().reshape(-1), tensor.shape)
        return {"name": name, "none": False, "dtype": dtype_name(reference.dtype),
                "shape": list(reference.shape), "error_scale": scale,
                "conditioning": conditioning, "rounds_to_float8": rounds_to_float8, **keys}

    def write(self, folders, name, description):
        """Returns (path, bytes, digest). Widest types come first, so that all data is aligned without
        holes."""
        self.tensors.sort(key=lambda t: -DTYPES[dtype_name(t[1].dtype)][1])
        header, offset = {"__metadata__": {"cupel.case": json.dumps(description, allow_nan=False)}}, 0
        for key, flat, shape in self.tensors:
            code, size = DTYPES[dtype_name(flat.dtype)]
            end = offset + flat.numel() * size
            header[key] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
            offset = end
        head = json.dumps(header).encode()
        head += b" " * (-(8 + len(head)) % 64)
        size = 8 + len(head) + offset
        path, fd = allocate(folders, name, size)
        try:
            start = write_at(fd, len(head).to_bytes(8, "little") + head, 0)
            for key, flat, _ in self.tensors:
                bytes_ = flat.numel() * flat.element_size()
                if bytes_:
                    flat = flat.contiguous()  # keeps its memory alive while it is read
                    memory = (ctypes.c_char * bytes_).from_address(flat.data_ptr())
                    write_at(fd, memory, start + header[key]["data_offsets"][0])
            if size > HASHED_BYTES:
                return path, size, hashlib.sha256(head).hexdigest()
            with mmap.mmap(fd, size) as memory:
                digest = digest_of(memory, size)
        finally:
            os.close(fd)
        return path, size, digest


def write_at(fd, memory, offset):
    """Writes at an offset. pwrite avoids the page faults of a mapping."""
    view = memoryview(memory).cast("B")
    try:
        done = 0
        while done < len(view):
            done += os.pwrite(fd, view[done:done + HASH_CHUNK], offset + done)
        return done
    finally:
        view.release()


def allocate(folders, name, size):
    """Creates the file in the first folder with enough space. Reserves the space, because writing to a
    full tmpfs raises SIGBUS."""
    error = None
    for folder in folders:
        path = os.path.join(folder, name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            return path, fd
        except OSError as e:
            error = e
            os.close(fd)
            os.unlink(path)
    raise OSError("a case of %.1f MB does not fit into %s (%s)" %
                  (size / 1e6, " or ".join(folders), error))


def digest_of(memory, size):
    view = memoryview(memory)
    try:
        def one(start):
            return hashlib.sha256(view[start:min(start + HASH_CHUNK, size)]).digest()
        starts = range(0, size, HASH_CHUNK)
        if len(starts) > 1:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                digests = list(pool.map(one, starts))
        else:
            digests = [one(s) for s in starts]
        return hashlib.sha256(b"".join(digests)).hexdigest()
    finally:
        view.release()


def make_case(task, request, folders, name, report):
    init, inputs = request["init"], request["inputs"]
    scales = request.get("scales")
    started = time.time()
    draws = 0
    if scales is None:
        scales, draws = error_scales(task, init, inputs, report)
    scaled = time.time()
    draw, truth = steady_draw(task, request["seed"], init, inputs)
    reference = draw.reference()
    if len(scales) != 2 * len(reference):
        raise TaskError("the number of outputs varies between draws")
    report("case computed")
    reply = write_case(task, request, folders, name, draw, reference, truth, scales)
    return dict(reply, scales=scales, draws=draws, seconds=time.time() - scaled,
                scale_seconds=scaled - started)


def write_case(task, request, folders, name, draw, reference, truth, scales):
    case = CaseFile()
    args = [case.value(a) for a in draw.args]
    conditions = scales[len(reference):]
    outputs = [case.output(i, n, r, t, s, c, draw.trace.rounds_to_float8) for i, (n, r, t, s, c) in
               enumerate(zip(draw.names, reference, truth, scales, conditions))]
    description = {"version": 1, "task": task.name, "direction": task.direction,
                   "seed": str(request["seed"]), "torch": torch.__version__,
                   "returns_tuple": draw.is_tuple, "args": args, "outputs": outputs}
    path, size, digest = case.write(folders, name, description)
    return {"file": path, "bytes": size, "digest": digest}


# --- protocol -------------------------------------------------------------------------------------


def describe(error, task_path):
    """The last line of a Python error, with its place in the task's own code."""
    if isinstance(error, TaskError):
        return str(error)
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    if isinstance(error, SystemExit):
        text = "the task's code called exit()"
    folder = os.path.dirname(os.path.abspath(task_path))
    place = ""
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno or 0))
    for file, line in frames:
        if os.path.abspath(file).startswith(folder + os.sep) and os.path.exists(file):
            place = "%s:%d: " % (os.path.basename(file), line)
    if isinstance(error, ModuleNotFoundError):
        text += " (install it next to PyTorch, or set CUPEL_PYTHON to a Python that has it)"
    return (place + text)[:2000]


def send_line(channel, message):
    channel.write(json.dumps(message) + "\n")
    channel.flush()


class Server:
    def __init__(self, channel, folders):
        self.channel, self.folders, self.tasks, self.made = channel, folders, {}, 0
        self.place = float64_place.CPU

    def send(self, message):
        send_line(self.channel, message)

    def loading(self):
        """The context in which a task's file is executed."""
        return cuda_on_cpu.OnCpu()

    def answer(self, request, report):
        """Returns the reply to a request. baseline.py's server handles other requests."""
        if request["op"] == "load":
            with self.loading():
                self.tasks[request["task"]] = Task(request)
            return {}
        if request["op"] == "gpu":
            self.place = float64_place.Gpu(request["ordinal"], request["lock"])
            return {}
        if request["op"] == "case":
            task = self.tasks[request["task"]]
            reply = self.case(task, request, report)
            reply["warnings"] = task.warnings
            return reply
        return {"failure": "unknown request %r" % request["op"]}

    def case(self, task, request, report):
        if self.place is float64_place.CPU:  # the limit would also count a GPU driver's mappings
            memory_limit.limit_memory(share=SHARE_OF_MEMORY)
        make = make_case
        if request.get("distribution", "usual") != "usual":
            import distributions
            make = distributions.make_case
        for place in ([] if task.on_cpu else [self.place]) + [float64_place.CPU]:
            self.made += 1
            try:
                with float64_place.at(place):
                    return make(task, request, self.folders, "case-%d" % self.made, report)
            except float64_place.Trouble as trouble:
                task.on_cpu = trouble.lasting
                report("computing truth on the CPU: %s" % trouble)
            self.place.release()  # free what the failed attempt used

    def handle(self, request):
        identity = request.get("id")
        task = self.tasks.get(request.get("task"))
        path = task.path if task else request.get("path", "")
        try:
            reply = self.answer(request, lambda text: self.send({"id": identity, "progress": text}))
        except Exception as error:
            failure = TOO_LARGE if memory_limit.is_exceeded(error) else describe(error, path)
            reply = {"failure": failure}
        except (SystemExit, Captured) as error:
            reply = {"failure": describe(error, path)}
        reply["id"] = identity
        self.send(reply)


def read_requests(stream, requests, folders):
    """Runs in a thread. If cupel ends, the pipe closes and this process exits, even if the task is
    running."""
    for line in stream:
        requests.put(line)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def use(imported_torch):
    global torch, cuda_on_cpu, dtype_trace, float64_place, float8, memory_limit
    folder = os.path.dirname(os.path.abspath(__file__))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # missing with PYTHONSAFEPATH
    torch, cuda_on_cpu = imported_torch, importlib.import_module("cuda_on_cpu")
    dtype_trace = importlib.import_module("dtype_trace")
    float64_place = importlib.import_module("float64_place")
    float8 = importlib.import_module("float8")
    memory_limit = importlib.import_module("memory_limit")


def cores_to_use():
    """The share in CUPEL_TORCH_THREADS, or all cores. PyTorch's default is half of them."""
    share, cores = os.environ.get("CUPEL_TORCH_THREADS", ""), len(os.sched_getaffinity(0))
    return min(int(share), cores) if share.isdecimal() and int(share) > 0 else cores


def serve(server_class):
    """Hides the protocol's descriptors from task code, loads PyTorch, and answers requests."""
    folders = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # cupel handles Ctrl-C and closes our pipe
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    stream = os.fdopen(os.dup(0), "r", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # task code prints to stderr
    sys.stdout = sys.stderr
    requests = queue.Queue()
    threading.Thread(target=read_requests, args=(stream, requests, folders), daemon=True).start()
    try:
        import torch as imported
    except Exception as error:
        send_line(channel, {"hello": None, "failure": "%s: %s" % (type(error).__name__, error)})
        return 1
    use(imported)
    server = server_class(channel, folders)
    threads = cores_to_use()
    torch.set_num_threads(threads)
    server.send({"hello": {"torch": torch.__version__, "threads": threads, "python": sys.executable}})
    while True:
        server.handle(json.loads(requests.get()))


if __name__ == "__main__":
    sys.modules["oracle"] = sys.modules["__main__"]  # for distributions.py
    sys.exit(serve(Server))
