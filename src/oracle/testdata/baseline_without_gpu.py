# baseline.py with simulated versions of PyTorch's CUDA and of the driver. They compute on the CPU and
# follow the driver's rules for events, to test the protocol and the bookkeeping without a GPU. On the
# simulated clock, a kernel of cupel takes 1 ms and a PyTorch call 0.01 ms.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "py"))
import baseline_server
import cuda_clock
import energy_counter
import oracle
import timed_call
import torch

EXTERNAL = 1
# CUDA_ERROR_INVALID_VALUE, …_INVALID_CONTEXT, …_STREAM_CAPTURE_INVALIDATED
INVALID, NO_CONTEXT, ILLEGAL = 1, 201, 901


class Library:
    """libcuda.so.1: records the work of a capture, or runs the work of the stream."""

    def __init__(self):
        self.capturing, self.at, self.events = None, 0.0, {}
        self.handles = 100
        self.call_cost = 0.01
        self.has_context = False  # PyTorch creates it at the first allocation
        # How often a call's inputs do not fit into memory, and the memory that other processes use.
        self.refusals = int(os.environ.get("STANDIN_REFUSALS", 0))
        self.of_others = int(os.environ.get("STANDIN_BYTES_OF_OTHERS", 0))

    def __getattr__(self, name):
        if name not in cuda_clock.SIGNATURES:
            raise AttributeError(name)
        do = getattr(self, "do_" + name)

        def function(*arguments):  # a function can have attributes, like those of ctypes
            return do(*arguments)
        return function

    def perform(self, work):
        if self.capturing is not None:
            self.capturing.append(work)
        else:
            work()

    def spend(self, milliseconds):
        self.at += milliseconds

    def new_handle(self, place):
        self.handles += 1
        place._obj.value = self.handles
        return 0

    def do_cuGetErrorName(self, code, place):
        place._obj.value = b"CUDA_ERROR"
        return 0

    do_cuGetErrorString = do_cuGetErrorName

    def do_cuDeviceGetPCIBusId(self, text, size, ordinal):
        text.value = b"00:01.0"
        return 0

    def do_cuModuleLoadData(self, place, image):
        if not self.has_context:
            return NO_CONTEXT
        return self.new_handle(place) if image.startswith(b".version") else INVALID

    def do_cuModuleGetFunction(self, place, module, name):
        return self.new_handle(place)

    def do_cuLaunchKernel(self, function, *arguments):
        self.perform(lambda: self.spend(1.0))
        return 0

    def do_cuEventCreate(self, place, flags):
        return self.new_handle(place)

    def do_cuEventRecordWithFlags(self, event, stream, flags):
        if (flags == EXTERNAL) != (self.capturing is not None):
            return ILLEGAL
        key = event.value
        self.perform(lambda: self.events.__setitem__(key, self.at))
        return 0

    def do_cuEventElapsedTime(self, place, start, end):
        place._obj.value = self.events[end.value] - self.events[start.value]
        return 0

    def do_cuStreamGetCaptureInfo_v2(self, stream, status, identity, graph, *rest):
        status._obj.value = 1 if self.capturing is not None else 0
        graph._obj.value = 7
        return 0

    def do_cuGraphGetNodes(self, graph, nodes, count):
        count._obj.value = 3
        if nodes is not None:
            for i in range(3):
                nodes[i] = i + 1
        return 0

    def do_cuGraphNodeGetType(self, node, kind):
        kind._obj.value = 0 if node == 2 else 7
        return 0


class Counter:
    """libnvidia-ml.so.1 of a GPU that uses 100 W while it works, and starts at 5 J."""

    def __init__(self, library):
        self.library, self.gpu = library, None

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, text, place):
        self.gpu = place._obj.value = 7 if text.value == b"00:01.0" else None
        return 0 if self.gpu else 2

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu, place):
        place._obj.value = int(5000 + 100 * self.library.at)
        return 0 if gpu.value == self.gpu else 2


class NotPermitted(RuntimeError):
    pass


class Stream:
    cuda_stream = 1

    def synchronize(self):
        pass


class Pool:
    """Memory of graphs. Later graphs on a stream reuse the memory of earlier ones. The pool ends with its
    last graph."""
    BYTES = int(os.environ.get("STANDIN_GRAPH_BYTES", 0))

    def __init__(self, left):
        self.left, self.graphs, self.streams, self.is_recording = left, set(), set(), False

    def record(self, graph, stream):
        assert not self.is_recording, "already recording to this pool"
        assert self.graphs or not self.streams, "the pool is deleted"
        self.is_recording = True
        self.graphs.add(graph)
        if stream not in self.streams:
            self.streams.add(stream)
            self.left[0] -= self.BYTES
            if self.left[0] < 0:
                raise RuntimeError("CUDA out of memory.")

    def forget(self, graph):
        self.graphs.discard(graph)
        if not self.graphs:
            self.left[0] += self.BYTES * len(self.streams)


class Graph:
    def __init__(self):
        self.work = self.ended_in = None

    def pool(self):
        if self.ended_in is None:
            raise RuntimeError("called without a preceding successful capture")

    def replay(self):
        for work in self.work:
            work()

    def reset(self):
        self.work = None
        self.ended_in.forget(self)


def replace_cuda(library):
    @contextlib.contextmanager
    def graph(graph, pool=None, stream=None):
        assert library.capturing is None
        library.capturing = []
        try:
            pool.record(graph, stream)
            yield
            graph.work = library.capturing
        except NotPermitted:  # a broken capture cannot be ended
            raise RuntimeError("capture was invalidated")
        except BaseException:
            end(graph, pool)
            raise
        else:
            end(graph, pool)
        finally:
            library.capturing = None

    @contextlib.contextmanager
    def on(stream):
        yield

    def end(graph, pool):
        graph.ended_in, pool.is_recording = pool, False

    def synchronize():
        if library.capturing is not None:
            raise NotPermitted("operation not permitted when stream is capturing")

    mode = ["default"]
    free = int(os.environ.get("STANDIN_FREE_BYTES", 1 << 30))
    real_item = torch.Tensor.item

    def item(tensor):
        if mode[0] == "error":
            raise RuntimeError("called a synchronizing CUDA operation")
        return real_item(tensor)

    torch.Tensor.item = item
    left = [free]
    used = [0]

    def memory_used():
        used[0] += 1 << 20
        return used[0]

    stand_ins = {
        "Stream": Stream, "CUDAGraph": Graph, "graph": graph, "stream": on,
        "current_stream": Stream, "synchronize": synchronize, "empty_cache": lambda: None,
        "mem_get_info": lambda: (left[0], free + library.of_others), "memory_reserved": memory_used,
        "memory_allocated": memory_used, "graph_pool_handle": lambda: Pool(left),
        "is_current_stream_capturing": lambda: library.capturing is not None,
        "get_sync_debug_mode": lambda: mode[0],
        "set_sync_debug_mode": lambda m: mode.__setitem__(0, m), "is_available": lambda: True,
        "device_count": lambda: 1, "set_device": lambda n: None,
        "get_device_name": lambda d: "Stand-in", }
    for name, value in stand_ins.items():
        getattr(torch.cuda, name)  # check that PyTorch has it
        setattr(torch.cuda, name, value)
    torch.version.cuda = "0.0"


class Server(baseline_server.BaselineServer):
    replaced = False

    def answer(self, request, report):
        if not self.replaced:
            self.replaced = True
            library = self.library = Library()
            replace_cuda(library)
            cuda_clock.open_library = lambda: library
            energy_counter.open_library = lambda: Counter(library)
            self.time_calls(library)
        return super().answer(request, report)

    def time_calls(self, library):
        """Makes a call run and take its time now, or at every replay. A capture runs nothing."""

        def run(call, plain_run):
            if library.capturing is None:
                library.spend(library.call_cost)
                return plain_run(call)
            state = [(t.detach(), t.detach().clone()) for t in call.state()]
            result = plain_run(call)
            for tensor, was in state:
                tensor.copy_(was)

            def replay():
                library.spend(library.call_cost)
                for place, new in zip(timed_call.tensors_of(result),
                                      timed_call.tensors_of(plain_run(call))):
                    place.detach().copy_(new)
            library.perform(replay)
            return result

        make_call = timed_call.make_call

        def make_where_there_is_room(*arguments):
            if library.refusals > 0:
                library.refusals -= 1
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
            return make_call(*arguments)

        timed_call.make_call = make_where_there_is_room
        for kind in (timed_call.ForwardCall, timed_call.ProblemCall, timed_call.BackwardCall):
            kind.run = lambda call, plain_run=kind.run: run(call, plain_run)

    def allocate(self, size):
        self.library.has_context = True
        return super().allocate(size)

    def device_of(self, ordinal):
        return torch.device("cpu")


if __name__ == "__main__":
    sys.exit(oracle.serve(Server))
