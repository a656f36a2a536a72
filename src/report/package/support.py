# Shared by the operators of an exported package: converts arguments to the form in which the kernel was
# judged, results to the form that PyTorch requires of custom operators, and assigns gradients to inputs.
# SPDX-License-Identifier: Apache-2.0
import importlib
import inspect

import torch


def extensions(package, *names):
    """The compiled kernels of the package. Raises ImportError that says how to build them, if they are not."""
    try:
        return [importlib.import_module("%s.%s" % (package, name)) for name in names]
    except ModuleNotFoundError as error:
        if error.name not in ["%s.%s" % (package, name) for name in names]:
            raise
        raise ImportError("the kernels of %s are not built: run 'python -m pip install --no-build-isolation .' in "
                          "its folder, where nvcc and a PyTorch with CUDA are" % package) from None


class Each:
    """Describes all tensors of a tuple."""

    def __init__(self, judged):
        self.judged = judged


def as_judged(args, judged):
    """Makes tensors dense that were dense when the kernel was judged. Raises TypeError for other types,
    since the kernel might misinterpret them. `judged`: for each argument None, Each, or (name, dtypes,
    dense)."""
    result = []
    for value, expected in zip(args, judged):
        if isinstance(value, torch.Tensor) and expected is not None:
            name, dtypes, dense = expected
            if value.dtype not in dtypes:
                raise TypeError("%s is %s; the kernel was judged on %s" %
                                (name, value.dtype, " and ".join(str(d) for d in dtypes)))
            value = value.contiguous() if dense else value
        elif isinstance(value, (list, tuple)):
            each = expected.judged if expected is not None else None
            value = tuple(as_judged(value, [each] * len(value)))
        result.append(value)
    return result


def tensors_of(args):
    found = []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_of(value)
    return found


def as_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def packed(outputs):
    """The results as the operator's schema requires: a single tensor or a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr() if tensor.numel() else None


def run(function, args, judged, keep):
    """Calls the extension on the device of its tensors. `keep`: indices of the results that the operator
    returns. They are dense and share no memory, as PyTorch requires of custom operators."""
    args = as_judged(args, judged)
    tensors = tensors_of(args)
    device = tensors[0].device
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            results = as_list(function(*args))
    else:
        results = as_list(function(*args))
    taken = {storage_of(t) for t in tensors} - {None}
    outputs = []
    for i in keep:
        output = results[i].contiguous()
        if storage_of(output) in taken:
            output = output.clone()
        taken.add(storage_of(output))
        outputs.append(output)
    return packed(outputs)


def empty_as(reference, args, keep):
    """The fake implementation: takes shapes and types from the reference, which computes nothing when
    its arguments are fake."""
    args = [tuple(a) if isinstance(a, list) else a for a in args]
    with torch.no_grad():
        results = as_list(reference(*args))
    device = tensors_of(args)[0].device
    return packed([torch.empty(results[i].shape, dtype=results[i].dtype, device=device)
                   for i in keep])


def empty_gradients(args, dtypes):
    """The fake implementation of a backward kernel: the last arguments are the sizes."""
    device = tensors_of(args)[0].device
    return packed([torch.empty(size, dtype=dtype, device=device)
                   for size, dtype in zip(args[len(args) - len(dtypes):], dtypes)])


def unpacked(outputs, keep, count, many):
    """The results in the form of the reference: with its None values, and as a tuple if it returns one."""
    result = [None] * count
    for i, output in zip(keep, as_list(outputs)):
        result[i] = output
    return tuple(result) if many else result[0]


class Context:
    """Replaces the ctx of the task's autograd function."""

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


class Captured(BaseException):
    """Raised to leave the task's backward when its call of backward_fn has been recorded."""


def on_meta(value):
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return tuple(on_meta(v) for v in value)
    return value


def at(values, path):
    for i in path:
        values = values[i]
    return values


def function_of(module):
    """The function that the model of a task calls, unless it is given another."""
    function = inspect.signature(module.Model.forward).parameters["fn"].default
    return function if callable(function) else module.forward_fn


def passed_arguments(model, inputs, function):
    """The positional arguments with which a task's model calls `function`."""
    seen = []

    def record(*args, **kwargs):
        seen.append(inspect.signature(function).bind(*args, **kwargs).args)
        raise Captured()

    try:
        model(*inputs, fn=record)
    except Captured:
        pass
    return seen[0]


def prepared_by(module):
    """A function of the model's inputs: the arguments that it passes to its own function."""
    return lambda *inputs: passed_arguments(module.Model(), inputs, function_of(module))


class Wiring:
    """Computes gradients with the backward kernel. `sources`: where each of its arguments comes from:
    ("input", path), ("output", i), ("grad", i), ("tuple", sources), or ("derived", path). The task's
    autograd function computes derived values from shapes and numbers; they are found by running it on
    tensors without data. `grads`: for each result of the operator, the input of which it is the gradient.
    `recompute`: the task's autograd function saves other tensors, so its forward is run once more.
    `prepare`: computes the arguments of the autograd function from those of the operator, if it has more."""

    def __init__(self, backward, sources, grads, inputs, autograd=None, recompute=False, keep=(0,),
                 count=1, prepare=None):
        self.backward_op, self.sources, self.grads, self.inputs = backward, sources, grads, inputs
        self.autograd, self.recompute = autograd, recompute
        self.keep, self.count = keep, count  # indices of the forward operator's results, of `count`
        self.prepare = prepare

    def wanted(self, sources, kind):
        for source in sources:
            if source[0] == "tuple":
                yield from self.wanted(source[1], kind)
            elif source[0] == kind:
                yield tuple(source[1]) if kind != "grad" else source[1]

    def run_forward(self, inputs, context):
        if self.prepare is not None:
            inputs = self.prepare(*inputs)
            context.needs_input_grad = (True,) * len(inputs)
        setup = getattr(self.autograd, "setup_context", None)
        if setup is not None and setup is not torch.autograd.Function.setup_context:
            output = self.autograd.forward(*inputs)
            setup(context, inputs, output)
            return output
        return self.autograd.forward(context, *inputs)

    def capture(self, context, grads):
        """The arguments with which the task's backward calls backward_fn."""
        before = self.autograd.backward_fn
        seen = []

        def record(*args):
            seen.append(args)
            raise Captured()

        self.autograd.backward_fn = record
        try:
            self.autograd.backward(context, *grads)
        except Captured:
            pass
        finally:
            self.autograd.backward_fn = before
        return seen[0]

    def derived(self, inputs):
        context = Context(self.inputs)
        # Without modes: PyTorch's opcheck reads the numbers of all tensors, which these do not have.
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            output = as_list(self.run_forward(on_meta(tuple(inputs)), context))
            return self.capture(context, [on_meta(o) for o in output])

    def setup_context(self, ctx, inputs, output):
        ctx.sizes = [inputs[i].shape for i in self.grads]
        ctx.lists = {i: len(v) for i, v in enumerate(inputs)
                     if isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor)}
        if self.recompute:
            ctx.task = Context(self.inputs)
            with torch.no_grad():
                self.run_forward(tuple(inputs), ctx.task)
            ctx.save_for_backward(*ctx.task.saved_tensors)
            ctx.task.saved_tensors = ()
            return
        outputs = unpacked(output, self.keep, self.count, True)
        kept, values = {}, {}
        for path in self.wanted(self.sources, "input"):
            value = at(inputs, path)
            (kept if isinstance(value, torch.Tensor) else values)[("input",) + path] = value
        for path in self.wanted(self.sources, "output"):
            kept[("output",) + path] = at(outputs, path)
        paths = list(self.wanted(self.sources, "derived"))
        if paths:
            found = self.derived(inputs)
            values.update((("derived",) + path, at(found, path)) for path in paths)
        ctx.names, ctx.values = list(kept), values
        ctx.save_for_backward(*kept.values())

    def arguments(self, sources, grads, found):
        result = []
        for source in sources:
            if source[0] == "tuple":
                result.append(self.arguments(source[1], grads, found))
            elif source[0] == "grad":
                result.append(grads[source[1]])
            else:
                result.append(found[(source[0],) + tuple(source[1])])
        return result

    def backward(self, ctx, *grads):
        grads = [g if g is None else g.contiguous() for g in grads]
        grads = unpacked(grads, self.keep, self.count, True)
        if self.recompute:
            ctx.task.saved_tensors = ctx.saved_tensors
            with torch.no_grad():
                args = list(self.capture(ctx.task, grads))
        else:
            found = dict(zip(ctx.names, ctx.saved_tensors))
            found.update(ctx.values)
            args = self.arguments(self.sources, grads, found)
        results = as_list(self.backward_op(*args, *ctx.sizes))
        gradients = [[None] * ctx.lists[i] if i in ctx.lists else None for i in range(self.inputs)]
        for i, gradient in zip(self.grads, results):
            gradients[i] = gradient
        return tuple(gradients)
