# One PyTorch call on the GPU, and the CUDA graphs that time it: [flush of L2][event][the call][event],
# as in cupel's GPU worker. baseline.py imports this after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from cuda_clock import Clock
from draw_backward import BackwardDraw
from draw_base import Draw
from draw_forward import ForwardDraw, bytes_of
from draw_problem import ProblemDraw, loose_tensors
from loaded_task import Task
from task_error import TaskError
from tensor_values import Outputs, is_float, leaves, storage_bytes, tree_map

WARM_UP_CALLS = 3
ADVICE = ("Set TORCH", "You can suppress", "For even more", "import torch._dynamo",
          "torch._dynamo.config", "The above exception", "Compile with", "CUDA kernel errors",
          "For debugging", "Search for")


def moved(value: Any, device: torch.device) -> Any:
    """A copy on the GPU with the strides of the case. Copies the whole storage of a view, as cases do."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.is_conj() or value.is_neg():
        value = value.clone()
    if (value.is_contiguous() and value.storage_offset() == 0) or value.numel() == 0:
        return value.to(device, copy=True)
    count = storage_bytes(value) // value.element_size()
    flat = value.as_strided((count,), (1,), 0).to(device, copy=True)
    return flat.as_strided(value.shape, value.stride(), value.storage_offset())


def all_moved(values: Any, device: torch.device) -> Any:
    return tree_map(lambda v: moved(v, device), values)


def outputs_of(result: Any) -> Outputs:
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    return [o if isinstance(o, torch.Tensor) else None for o in outputs]


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [v for v in leaves(values) if isinstance(v, torch.Tensor)]


def short(text: str) -> str:
    """The message without PyTorch's advice on debugging PyTorch."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(ADVICE)]
    if not lines:
        return "an error without a message"
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return text[:500]


def for_each_head(args: Sequence[Any]) -> list[Any]:
    """Arguments of scaled_dot_product operators, with keys and values for each head of the query."""
    def repeated(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.size(1) == heads:
            return value
        return value.new_empty((value.size(0), heads, *value.shape[2:]), device="meta")

    heads = args[0].size(1)  # of the query, or of the gradient of the result
    return [repeated(value) for value in args[:4]] + list(args[4:])


def attention_formulas() -> dict:
    """PyTorch's formulas for attention count all pairs of tokens, and refuse heads that share keys. With
    is_causal, half of the pairs are needed."""
    from torch.utils.flop_counter import flop_registry

    def halved(formula: Callable[..., int], at: int, has_heads_second: bool) -> Callable[..., int]:
        def count(*args: Any, **keywords: Any) -> int:
            is_causal = keywords.get("is_causal", args[at] if at < len(args) else False)
            flops = formula(*(for_each_head(args) if has_heads_second else args), **keywords)
            return flops // 2 if is_causal else flops
        count._get_raw = True  # as the formulas in the registry: arguments as they are, not their shapes
        return count

    formulas = {}
    for operation, formula in flop_registry.items():
        schema = getattr(getattr(operation, "default", None), "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        if "is_causal" in names:
            has_heads_second = "scaled_dot_product" in str(operation)
            formulas[operation] = halved(formula, names.index("is_causal"), has_heads_second)
    return formulas


def flops_of(call: Call) -> int:
    """Operations of products and convolutions in one call, as PyTorch counts them; 0 if it cannot."""
    try:
        from torch.utils.flop_counter import FlopCounterMode
        armed = call.arm(call.plain)
        with FlopCounterMode(display=False, custom_mapping=attention_formulas()) as counter:
            call.run()
        del armed
        return int(counter.get_total_flops())
    except Exception:
        return 0


# --- what is timed --------------------------------------------------------------------------------


class ForwardCall:
    """The function that a forward candidate replaces, on one set of inputs. All kinds of calls have these
    members. The result of arm() must live as long as a graph of run()."""

    def __init__(self, task: Task, draw: ForwardDraw, device: torch.device) -> None:
        self.plain, self.args = task.function, all_moved(draw.args, device)

    def arm(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self) -> Any:
        with torch.no_grad():
            return self.function(*self.args)

    def state(self) -> list[torch.Tensor]:
        """Tensors that a call may change."""
        return tensors_of(self.args)


class ProblemCall:
    """A KernelBench problem: the module, in its mode after construction."""

    def __init__(self, task: Task, draw: ProblemDraw, device: torch.device) -> None:
        self.inputs = all_moved(draw.inputs, device)
        for _, tensor, put in loose_tensors(draw.model):
            put(moved(tensor, device))
        self.plain = draw.model.to(device)

    def arm(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self) -> Any:
        with torch.no_grad():
            return self.function(*self.inputs)

    def state(self) -> list[torch.Tensor]:
        return tensors_of(self.inputs) + list(self.plain.parameters()) + list(self.plain.buffers())


class BackwardCall:
    """Only autograd's backward pass. arm() runs the forward pass before it."""

    def __init__(self, task: Task, draw: BackwardDraw, device: torch.device) -> None:
        self.plain, self.wanted = task.function, draw.wanted
        self.inputs = list(all_moved(draw.inputs, device))
        self.grads = all_moved(draw.grads, device)
        self.order = sorted({i for i in self.wanted if i is not None})
        for i in self.order:
            if not is_float(self.inputs[i]):
                raise TaskError("backward returns a gradient for input %d, which is not a "
                                       "floating-point tensor" % i)
            self.inputs[i].requires_grad_(True)

    def arm(self, function: Callable[..., Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        with torch.enable_grad():
            result = function(*self.inputs)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        self.pairs = [(o, g) for o, g in zip(outputs, self.grads)
                      if g is not None and o.requires_grad]
        if not self.pairs:
            raise TaskError("no output of forward_fn depends on an input that needs a "
                                   "gradient")
        return self.pairs

    def run(self) -> Any:
        outputs, grads = zip(*self.pairs)
        found = torch.autograd.grad(outputs, [self.inputs[i] for i in self.order], grads,
                                    allow_unused=True, retain_graph=True)
        by_input = dict(zip(self.order, found))
        return tuple(None if i is None else by_input[i] for i in self.wanted)

    def state(self) -> list[torch.Tensor]:
        return []


class ProbeCall:
    """cupel's own kernel. Its time must match the GPU worker's."""
    plain = None

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def arm(self, function: Callable[..., Any] | None) -> None:
        pass

    def run(self) -> Any:
        self.clock.probe(torch.cuda.current_stream().cuda_stream)
        return ()

    def state(self) -> list[torch.Tensor]:
        return []


Call = ForwardCall | ProblemCall | BackwardCall | ProbeCall


def make_call(task: Task, draw: Draw, device: torch.device) -> Call:
    if task.is_problem:
        return ProblemCall(task, draw, device)
    return (BackwardCall if task.direction == "backward" else ForwardCall)(task, draw, device)


# --- one set of inputs ----------------------------------------------------------------------------


UNFINISHED = []  # graphs whose capture could not be ended: PyTorch's allocator still uses them


def free_capture(graph: torch.cuda.CUDAGraph) -> bool:
    """Frees the memory of a failed capture. Returns False if PyTorch could not end the capture."""
    try:
        graph.pool()  # raises an error if the capture has not been ended
    except RuntimeError:
        return False
    graph.reset()
    return True


class GraphPool:
    """A stream and a memory pool of graphs, shared by all sets; one set works at a time. cuDNN allocates
    tens of GB of workspaces if it can, and a captured graph keeps this memory for its own stream."""

    def __init__(self) -> None:
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.users = 0  # sets that have graphs
        self.is_over = False  # True: new sets must not use it

    def leave(self) -> None:
        self.users -= 1
        self.close_if_empty()

    def close_if_empty(self) -> None:
        """Call it after the first capture: without graphs, PyTorch deletes the pool."""
        self.is_over = self.is_over or self.users == 0


class Set:
    """A call on one set of inputs, and the graphs that time it."""

    def __init__(self, call: Call, clock: Clock, graph_pool: GraphPool) -> None:
        self.call, self.clock, self.graph_pool = call, clock, graph_pool
        self.graphs = {}  # by whether L2 is flushed; empty: the stream is timed instead
        self.changed = []  # (tensor that the call changes, its original value)
        self.names_of_changed = []
        self.armed, self.kernels, self.outputs = None, None, []

    @property
    def stream(self) -> torch.cuda.Stream:
        return self.graph_pool.stream

    def on_stream(self) -> AbstractContextManager:
        return torch.cuda.stream(self.stream)

    def watch(self) -> Outputs:
        """Calls once, eagerly, to find the tensors that the call changes. Returns copies of its outputs, and then
        of what it leaves in these tensors."""
        with self.on_stream():
            self.call.arm(self.call.plain)
            before = [(t, t._version, t.detach().clone()) for t in self.call.state()]
            outputs = outputs_of(self.call.run())
            outputs = [None if o is None else o.detach().clone() for o in outputs]
            # batch_norm changes its running statistics without counting
            places = [i for i, (t, version, copy) in enumerate(before)
                      if t._version != version or not torch.equal(bytes_of(t), bytes_of(copy))]
            self.changed = [(before[i][0], before[i][2]) for i in places]
            self.names_of_changed = ["tensor %d after the call" % i for i in places]
            outputs += [t.detach().clone() for t, _ in self.changed]
            self.restore()
        self.stream.synchronize()
        return outputs

    def restore(self) -> None:
        """Restores the arguments that a call changed, on the current stream."""
        with torch.no_grad():
            for tensor, copy in self.changed:
                tensor.detach().copy_(copy)

    def run_a_few_times(self) -> None:
        """Makes the first calls, which compile, tune and load code."""
        with self.on_stream():
            for _ in range(WARM_UP_CALLS):
                self.restore()
                self.call.run()
            self.restore()
        self.stream.synchronize()

    def warm_up(self, function: Callable[..., Any] | None) -> None:
        with self.on_stream():
            self.armed = self.call.arm(function)
        self.run_a_few_times()

    def why_not_captured(self) -> str:
        """Why the call cannot be captured, or "": a call that waits for the GPU would break the capture and
        PyTorch's state."""
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

    def capture(self) -> None:
        """Captures both graphs. After a replay of the graph without a flush, `outputs` contains its
        results, until another graph is captured or replayed."""
        graphs = {}
        try:
            with self.on_stream():  # a failed capture may not restore the current stream itself
                for flushed in (True, False):
                    self.outputs = []  # the second graph may reuse the memory of the first one's results
                    graphs[flushed] = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graphs[flushed], pool=self.graph_pool.pool, stream=self.stream):
                        self.outputs = outputs_of(self.enqueue(flushed, captured=True))
                        if not flushed:
                            self.kernels = self.clock.captured_kernels(self.stream.cuda_stream)
        except BaseException:
            self.outputs = []
            stuck = [graph for graph in graphs.values() if not free_capture(graph)]
            UNFINISHED.extend(stuck)
            self.graph_pool.is_over = self.graph_pool.is_over or bool(stuck)
            self.graph_pool.close_if_empty()
            raise
        self.graphs = graphs
        self.graph_pool.users += 1

    def enqueue(self, flushed: bool, captured: bool = False) -> Any:
        """Enqueues [flush][event][call][event] on the current stream, which must be self.stream."""
        handle = self.stream.cuda_stream
        if flushed:
            self.clock.flush(handle)
        self.clock.record(0, handle, captured)
        result = self.call.run()
        self.clock.record(1, handle, captured)
        return result

    def give_up_graphs(self) -> None:
        self.graphs, self.outputs = {}, []
        self.graph_pool = GraphPool()  # a failed capture may leave its stream unusable

    def results(self) -> Outputs:
        """The outputs of the timed calls, and then what they leave in the tensors that they change, until the next
        call."""
        changed = [t for t, _ in self.changed]
        if self.graphs:
            self.sample(True)
            self.sample(False)
            return self.outputs + changed
        with self.on_stream():
            self.restore()
            outputs = outputs_of(self.call.run())
        self.stream.synchronize()
        return outputs + changed

    def sample(self, flushed: bool) -> float:
        """Replays once. Returns the microseconds between the events."""
        with self.on_stream():
            self.restore()
            if self.graphs:
                self.graphs[flushed].replay()
            else:
                self.enqueue(flushed)
        self.stream.synchronize()
        return self.clock.elapsed_us()

    def host_sample(self) -> float:
        """Wall time, in microseconds, of a plain call until it has finished."""
        with self.on_stream():
            self.restore()
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            self.call.run()
            torch.cuda.synchronize()
            return (time.perf_counter_ns() - start) / 1000.0

    def free(self) -> None:
        for graph in self.graphs.values():
            graph.reset()
        if self.graphs:
            self.graph_pool.leave()
        self.graphs, self.call, self.changed, self.armed, self.outputs = {}, None, [], None, []
