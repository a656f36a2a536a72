# One call of PyTorch's on the GPU, and the CUDA graphs that time it: [flush of L2][event][the call]
# [event], as cupel's GPU worker has them. baseline.py imports this once PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
import time

import torch

import oracle

WARM_UP_CALLS = 3
ADVICE = ("Set TORCH", "You can suppress", "For even more", "import torch._dynamo",
          "torch._dynamo.config", "The above exception", "Compile with", "CUDA kernel errors",
          "For debugging", "Search for")


def moved(value, device):
    """A copy on the GPU with the strides of the case; views bring their whole storage, as in cases."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.is_conj() or value.is_neg():
        value = value.clone()
    if (value.is_contiguous() and value.storage_offset() == 0) or value.numel() == 0:
        return value.to(device, copy=True)
    count = oracle.storage_bytes(value) // value.element_size()
    flat = value.as_strided((count,), (1,), 0).to(device, copy=True)
    return flat.as_strided(value.shape, value.stride(), value.storage_offset())


def all_moved(values, device):
    return oracle.tree_map(lambda v: moved(v, device), values)


def outputs_of(result):
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    return [o if isinstance(o, torch.Tensor) else None for o in outputs]


def tensors_of(values):
    return [v for v in oracle.leaves(values) if isinstance(v, torch.Tensor)]


def short(text):
    """PyTorch's long messages end in advice on debugging PyTorch."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(ADVICE)]
    if not lines:
        return "an error without a message"
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return text[:500]


def flops_of(call):
    """Of products and convolutions in one call, as PyTorch counts them; 0 when it cannot."""
    try:
        from torch.utils.flop_counter import FlopCounterMode
        armed = call.arm(call.plain)
        with FlopCounterMode(display=False) as counter:
            call.run()
        del armed
        return int(counter.get_total_flops())
    except Exception:
        return 0


# --- what is timed --------------------------------------------------------------------------------


class ForwardCall:
    """The function that a forward candidate replaces, on one set of inputs. Calls of all kinds have
    these members; what arm() returns must live as long as a graph of run()."""

    def __init__(self, task, draw, device):
        self.plain, self.args = task.function, all_moved(draw.args, device)

    def arm(self, function):
        self.function = function

    def run(self):
        with torch.no_grad():
            return self.function(*self.args)

    def state(self):
        """Tensors that a call might change."""
        return tensors_of(self.args)


class ProblemCall:
    """A KernelBench problem: the module, in the mode that it is in after construction."""

    def __init__(self, task, draw, device):
        self.inputs = all_moved(draw.inputs, device)
        for _, tensor, put in oracle.loose_tensors(draw.model):
            put(moved(tensor, device))
        self.plain = draw.model.to(device)

    def arm(self, function):
        self.function = function

    def run(self):
        with torch.no_grad():
            return self.function(*self.inputs)

    def state(self):
        return tensors_of(self.inputs) + list(self.plain.parameters()) + list(self.plain.buffers())


class BackwardCall:
    """Autograd's backward pass alone: arm() runs the forward pass that it belongs to."""

    def __init__(self, task, draw, device):
        self.plain, self.wanted = task.function, draw.wanted
        self.inputs = list(all_moved(draw.inputs, device))
        self.grads = all_moved(draw.grads, device)
        self.order = sorted({i for i in self.wanted if i is not None})
        for i in self.order:
            if not oracle.is_float(self.inputs[i]):
                raise oracle.TaskError("backward returns a gradient for input %d, which is no "
                                       "floating-point tensor" % i)
            self.inputs[i].requires_grad_(True)

    def arm(self, function):
        with torch.enable_grad():
            result = function(*self.inputs)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        self.pairs = [(o, g) for o, g in zip(outputs, self.grads)
                      if g is not None and o.requires_grad]
        if not self.pairs:
            raise oracle.TaskError("no output of forward_fn depends on an input whose gradient is "
                                   "asked")
        return self.pairs

    def run(self):
        outputs, grads = zip(*self.pairs)
        found = torch.autograd.grad(outputs, [self.inputs[i] for i in self.order], grads,
                                    allow_unused=True, retain_graph=True)
        by_input = dict(zip(self.order, found))
        return tuple(None if i is None else by_input[i] for i in self.wanted)

    def state(self):
        return []


class ProbeCall:
    """cupel's own kernel, whose time must be what the worker measures for it."""
    plain = None

    def __init__(self, clock):
        self.clock = clock

    def arm(self, function):
        pass

    def run(self):
        self.clock.probe(torch.cuda.current_stream().cuda_stream)
        return ()

    def state(self):
        return []


def make_call(task, draw, device):
    if task.is_problem:
        return ProblemCall(task, draw, device)
    return (BackwardCall if task.direction == "backward" else ForwardCall)(task, draw, device)


# --- one set of inputs ----------------------------------------------------------------------------


UNFINISHED = []  # graphs whose capture could not be ended: PyTorch's allocator goes on asking them


def give_back(graph):
    """What a capture took that failed, unless PyTorch could not end it. False: that is so."""
    try:
        graph.pool()  # refuses where the capture has not been ended
    except RuntimeError:
        return False
    graph.reset()
    return True


class Room:
    """A stream and a pool of graphs' memory that all sets share, of which one works at a time: cuDNN takes
    what memory it finds for workspaces, tens of GB, and a captured graph keeps it, for its own stream."""

    def __init__(self):
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.users = 0  # sets that have graphs
        self.is_over = False  # for new ones

    def leave(self):
        self.users -= 1
        self.close_if_empty()

    def close_if_empty(self):
        """After the first capture: without graphs the pool is gone."""
        self.is_over = self.is_over or self.users == 0


class Set:
    """A call on one set of inputs, and the graphs that time it."""

    def __init__(self, call, clock, room):
        self.call, self.clock, self.room = call, clock, room
        self.graphs = {}  # by whether L2 is flushed; empty: the stream is timed instead
        self.changed = []  # (tensor that the call changes, what it was)
        self.armed, self.kernels, self.outputs = None, None, []

    @property
    def stream(self):
        return self.room.stream

    def on_stream(self):
        return torch.cuda.stream(self.stream)

    def watch(self):
        """Calls once, eagerly, to see what the call changes; returns copies of its outputs."""
        with self.on_stream():
            self.call.arm(self.call.plain)
            before = [(t, t._version, t.detach().clone()) for t in self.call.state()]
            outputs = outputs_of(self.call.run())
            outputs = [None if o is None else o.detach().clone() for o in outputs]
            self.changed = [(t, copy) for t, version, copy in before if t._version != version]
            self.restore()
        self.stream.synchronize()
        return outputs

    def restore(self):
        """Undoes what a call did to its arguments; on the current stream."""
        with torch.no_grad():
            for tensor, copy in self.changed:
                tensor.detach().copy_(copy)

    def run_a_few_times(self):
        """Compiles, tunes and loads whatever the first calls make."""
        with self.on_stream():
            for _ in range(WARM_UP_CALLS):
                self.restore()
                self.call.run()
            self.restore()
        self.stream.synchronize()

    def warm_up(self, function):
        with self.on_stream():
            self.armed = self.call.arm(function)
        self.run_a_few_times()

    def why_not_captured(self):
        """A call that waits for the GPU would break a capture, and PyTorch's state with it."""
        before = torch.cuda.get_sync_debug_mode()
        try:
            torch.cuda.set_sync_debug_mode("error")
            with self.on_stream():
                self.call.run()
            return ""
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            return short(str(error))
        finally:
            torch.cuda.set_sync_debug_mode(before)
            with self.on_stream():
                self.restore()
            self.stream.synchronize()

    def capture(self):
        """Both graphs; `outputs` hold the results of the one without a flush after its replay, until
        another graph is captured or replayed."""
        graphs = {}
        try:
            with self.on_stream():  # a capture that fails may not put the current stream back itself
                for flushed in (True, False):
                    self.outputs = []  # the second graph may have the memory of the first one's results
                    graphs[flushed] = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graphs[flushed], pool=self.room.pool, stream=self.stream):
                        self.outputs = outputs_of(self.enqueue(flushed, captured=True))
                        if not flushed:
                            self.kernels = self.clock.captured_kernels(self.stream.cuda_stream)
        except BaseException:
            self.outputs = []
            stuck = [graph for graph in graphs.values() if not give_back(graph)]
            UNFINISHED.extend(stuck)
            self.room.is_over = self.room.is_over or bool(stuck)
            self.room.close_if_empty()
            raise
        self.graphs = graphs
        self.room.users += 1

    def enqueue(self, flushed, captured=False):
        """[flush][event][call][event] on the current stream, which is ours."""
        handle = self.stream.cuda_stream
        if flushed:
            self.clock.flush(handle)
        self.clock.record(0, handle, captured)
        result = self.call.run()
        self.clock.record(1, handle, captured)
        return result

    def give_up_graphs(self):
        self.graphs, self.outputs = {}, []
        self.room = Room()  # a failed capture may leave its stream unusable

    def results(self):
        """Outputs as the timed calls compute them."""
        if self.graphs:
            self.sample(True)
            self.sample(False)
            return self.outputs
        with self.on_stream():
            self.restore()
            outputs = outputs_of(self.call.run())
        self.stream.synchronize()
        return outputs

    def sample(self, flushed):
        """Microseconds between the events of one replay."""
        with self.on_stream():
            self.restore()
            if self.graphs:
                self.graphs[flushed].replay()
            else:
                self.enqueue(flushed)
        self.stream.synchronize()
        return self.clock.elapsed_us()

    def host_sample(self):
        """Microseconds of wall time of a plain call and the wait for it."""
        with self.on_stream():
            self.restore()
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            self.call.run()
            torch.cuda.synchronize()
            return (time.perf_counter_ns() - start) / 1000.0

    def free(self):
        for graph in self.graphs.values():
            graph.reset()
        if self.graphs:
            self.room.leave()
        self.graphs, self.call, self.changed, self.armed, self.outputs = {}, None, [], None, []
