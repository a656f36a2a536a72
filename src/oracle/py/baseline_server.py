# Prepares and times baselines, and answers baseline.py's requests.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

import torch

import agreement
import case_server
import cuda_clock
import gpu_lock
import gpu_memory
import timed_call
from baseline_draws import Draws
from compiled_function import MODES, compiled, keep_saved_tensors, reset_compiler
from draw_base import Draw
from energy_counter import EnergyCounter, NoEnergy
from loaded_task import Task
from named_baseline import NamedBaseline, Unavailable
from oracle_types import Json, Report, Send
from task_error import describe

MAX_SETS = 64
MAX_COUNT = 1 << 18  # the samples must fit into one line of JSON
KINDS = ("eager", "named", "probe") + tuple(MODES)
SAMPLE_MODES = ("cold", "warm", "host")
CALLS_AT_A_TIME, MAX_ENERGY_SECONDS = 64, 60.0  # while energy is measured; Python starts calls slowly
REPORT_SECONDS = 20  # seconds
MEMORY_PATIENCE = 180.0  # seconds to wait for memory that other processes use
MEMORY_PAUSES = (1.0, 8.0)  # the first and the longest; each is twice the previous one
OTHERS = 3 << 30  # bytes of a GPU that are neither free nor PyTorch's: this cupel's own processes use less


class Unsupported(Exception):
    """This PyTorch or this machine cannot do it. str() names the remedy."""


class Baseline:
    """One kind of baseline of one setting, prepared on as many sets of inputs as fit into memory."""

    def __init__(self, server: BaselineServer, kind: str, report: Report, name: str) -> None:
        """`name`: for messages."""
        self.server, self.kind = server, kind
        self.report = lambda text: report("baseline %s: %s" % (name, text))
        self.sets, self.functions = [], []
        self.why, self.fewer, self.outputs, self.resets, self.flops = "", "", [], 0, 0
        self.named: NamedBaseline | None = None

    def prepare(self, request: Json) -> None:
        torch.cuda.empty_cache()
        budget = torch.cuda.mem_get_info()[0] // 3
        if self.kind == "named":
            self.named = self.load_named(request)
        if self.may_compile():
            self.reset_compiler()
        seeds = [0] if self.kind == "probe" else request["seeds"][:MAX_SETS]
        # Count the memory that each set owns; sets share the memory of graphs. As much memory
        # as the budget stays free, because plain calls and the judged kernels need memory, too.
        first, largest = torch.cuda.memory_allocated(), 0
        for i, seed in enumerate(seeds):
            before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
            if i > 0 and (before - first + largest > budget or free - largest < budget):
                self.fewer = "more do not fit into a third of the GPU's free memory"
                break
            self.report("set %d of %d" % (i + 1, len(seeds)))
            try:
                self.add(request, seed)
            except (RuntimeError, cuda_clock.DriverError) as error:
                if i == 0:
                    raise
                self.fewer = timed_call.short(str(error))
                self.keep(i)  # use the sets that are ready
                torch.cuda.synchronize()  # raises an error if the context is broken
                break
            torch.cuda.empty_cache()
            largest = max(largest, torch.cuda.memory_allocated() - before)

    def may_compile(self) -> bool:
        """Whether PyTorch's compiler is used."""
        return self.kind in MODES or (self.named is not None and self.named.may_compile)

    def load_named(self, request: Json) -> NamedBaseline:
        keep_saved_tensors()  # the library may use PyTorch's compiler
        try:
            return NamedBaseline(request["file"], request["function"])
        except (Unavailable, ImportError) as error:
            raise Unsupported(str(error)) from error

    def add(self, request: Json, seed: int) -> None:
        if self.kind == "probe":
            new = self.new_set(timed_call.ProbeCall(self.server.clock))
            with self.server.gpu:
                return self.build(new, None)
        task = self.server.tasks[request["task"]]
        draw = self.server.draws.of(task, request["init"], request["inputs"], seed)
        with self.server.gpu:
            self.add_drawn(task, draw)

    def add_drawn(self, task: Task, draw: Draw) -> None:
        call = timed_call.make_call(task, draw, self.server.device)
        torch.cuda.synchronize()  # the sets' streams do not wait for the stream that copied the inputs
        new = self.new_set(call)
        expected = new.watch()
        if len(self.sets) == 1:
            self.flops = timed_call.flops_of(call)
        function = new.call.plain
        if self.kind in MODES:
            # In a KernelBench problem every set has its own module. Otherwise all sets share one
            # compiled function.
            shared = self.functions and not isinstance(function, torch.nn.Module)
            function = self.functions[0] if shared else compiled(function, self.kind)
        elif self.named is not None:
            function = self.named.of(function)
        self.build(new, function)
        if len(self.sets) == 1:
            names = agreement.names_of(draw, expected, new.names_of_changed)
            self.outputs = agreement.compared(names, new.results(), expected)
        else:
            new.results()
        new.outputs = []

    def new_set(self, call: timed_call.Call) -> timed_call.Set:
        self.sets.append(timed_call.Set(call, self.server.clock, self.server.graph_pool()))
        return self.sets[-1]

    def build(self, new: timed_call.Set, function: Callable[..., Any] | None) -> None:
        """Warms up and captures. If the first set cannot be captured, the stream is timed instead."""
        self.functions.append(function)
        new.warm_up(function)
        self.report("warmed up")
        if self.why:
            return
        why = new.why_not_captured()
        if not why:
            try:
                return new.capture()
            except (RuntimeError, cuda_clock.DriverError) as error:
                # The end of a broken capture fails, too. The cause is the earlier error.
                first = error.__context__ if "capture" in str(error) else None
                if lacks_memory(first or error):
                    raise
                why = timed_call.short(str(first or error))
        if len(self.sets) > 1:
            raise RuntimeError(why)
        self.why = why
        new.give_up_graphs()
        torch.cuda.synchronize()  # raises an error if the context is broken
        new.warm_up(function)

    def reset_compiler(self) -> None:
        self.server.reset_compiler()
        self.resets = self.server.resets

    def take(self, mode: str, index: int, count: int) -> list[float]:
        chosen = self.sets[index]
        if mode == "cold":
            sample = lambda: chosen.sample(True)  # noqa: E731
        elif mode == "warm":
            sample = lambda: chosen.sample(False)  # noqa: E731
            sample()
        else:
            # Another baseline's reset has dropped the compiled code, which plain calls need.
            if self.may_compile() and self.resets != self.server.resets:
                self.reset_compiler()
            chosen.run_a_few_times()
            sample = chosen.host_sample
        samples, reported = [], time.monotonic()
        while len(samples) < count:
            samples.append(sample())
            if time.monotonic() - reported > REPORT_SECONDS:
                self.report("%d of %d samples" % (len(samples), count))
                reported = time.monotonic()
        return samples

    def energy(self, seconds: float) -> Json:
        """Replays for this long, with a warm L2, on all sets in turn."""
        if self.why:
            raise Unsupported("measuring the energy of calls that are not captured, since it would include waiting "
                              "for launches")
        if any(one.changed for one in self.sets):
            raise Unsupported("measuring the energy of calls that change their arguments, since it would include "
                              "restoring them")
        counter, calls = EnergyCounter(self.server.clock.driver, self.server.device.index), 0
        graphs = [one.graphs[False] for one in self.sets]
        with self.sets[0].on_stream():
            before, start = counter.joules(), time.monotonic()
            while time.monotonic() - start < seconds:
                for _ in range(CALLS_AT_A_TIME):
                    graphs[calls % len(graphs)].replay()
                    calls += 1
                torch.cuda.synchronize()
        took = time.monotonic() - start
        used = counter.joules() - before
        return {"joules": used / calls, "watts": used / took, "calls": calls}

    def keep(self, count: int) -> None:
        for one in self.sets[count:]:
            one.free()
        del self.sets[count:], self.functions[count:]


def lacks_memory(error: BaseException) -> bool:
    """True if the error is about GPU memory that other processes use and may soon free."""
    if not gpu_memory.is_out_of_memory(error):
        return False
    try:
        free, total = torch.cuda.mem_get_info()
    except RuntimeError:
        return False  # after some errors no call works
    return total - free - torch.cuda.memory_reserved() > OTHERS


def forbid_tf32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


def tf32_is_allowed() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32 or
                torch.get_float32_matmul_precision() != "highest")


class BaselineServer(case_server.Server):
    def __init__(self, send: Send, folders: list[str]) -> None:
        super().__init__(send, folders)
        self.clock, self.device, self.baselines, self.resets = None, None, {}, 0
        self.gpu = gpu_lock.SharedUse("")
        self.draws = Draws()
        self.patience = MEMORY_PATIENCE
        self.last_graph_pool = None

    def answer(self, request: Json, report: Report) -> Json:
        operation = request["op"]
        if operation not in ("open", "prepare", "take", "energy", "drop"):
            return super().answer(request, report)
        if operation != "open" and self.clock is None:
            return {"failure": "no GPU is open"}
        task = self.tasks.get(request.get("task"))
        try:
            return getattr(self, operation)(request, report)
        except (Unsupported, NoEnergy) as error:
            failure = "unsupported: %s" % error
        except cuda_clock.DriverError as error:
            failure = str(error)
        except Exception as error:
            failure = timed_call.short(describe(error, task.path if task else ""))
        # The objects in the error's frames can be freed only here.
        return {"failure": failure, "broken": self.is_broken()}

    def is_broken(self) -> bool:
        """True if no GPU call works until the process ends, as after some errors."""
        try:
            gc.collect()
            if self.clock is not None:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            return False
        except Exception:
            return True

    def open(self, request: Json, report: Report) -> Json:
        if self.clock is not None:
            return {"failure": "the GPU is already open"}
        version, ordinal = torch.__version__, request["device"]
        if torch.version.cuda is None:
            raise Unsupported("this PyTorch (%s) is built without CUDA; install a CUDA build of "
                              "PyTorch, or set CUPEL_PYTHON to a Python that has one" % version)
        if not torch.cuda.is_available():
            raise Unsupported("PyTorch %s (CUDA %s) finds no GPU; check nvidia-smi and "
                              "CUDA_VISIBLE_DEVICES" % (version, torch.version.cuda))
        if ordinal >= torch.cuda.device_count():
            raise Unsupported("PyTorch finds %d GPUs, but no GPU number %d" %
                              (torch.cuda.device_count(), ordinal))
        torch.cuda.set_device(ordinal)
        self.device = self.device_of(ordinal)
        self.gpu = gpu_lock.SharedUse(request.get("lock", ""), waiting=lambda: report(
            "waiting for the GPU while another process measures on it"))
        forbid_tf32()
        with self.gpu:
            clock = cuda_clock.Clock(request, self.allocate)
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            clock.flush(stream.cuda_stream)  # once outside any graph, to load the kernels
            clock.probe(stream.cuda_stream)
            stream.synchronize()
        self.clock = clock
        return dict(self.about(), cuda=torch.version.cuda)

    def loading(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()  # tensors that the file makes when it is loaded stay on the GPU

    def device_of(self, ordinal: int) -> torch.device:
        return torch.device("cuda", ordinal)

    def allocate(self, size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.uint8, device=self.device)

    def about(self) -> Json:
        return {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(self.device),
                "tf32": tf32_is_allowed()}

    def reset_compiler(self) -> None:
        reset_compiler()
        self.resets += 1

    def graph_pool(self) -> timed_call.GraphPool:
        if self.last_graph_pool is None or self.last_graph_pool.is_over:
            self.last_graph_pool = timed_call.GraphPool()
        return self.last_graph_pool

    def prepare(self, request: Json, report: Report) -> Json:
        name, kind = request["name"], request["kind"]
        if kind not in KINDS:
            return {"failure": "there is no baseline %r" % kind}
        if name in self.baselines:
            return {"failure": "%r is already prepared" % name}
        if kind != "probe" and not request["seeds"]:
            return {"failure": "a baseline needs at least one seed"}
        started = time.monotonic()
        forbid_tf32()  # the task's code may have allowed it
        self.gpu.waiting = lambda: report("waiting for the GPU while another process measures on it")
        baseline = self.prepared(kind, request, report)
        self.baselines[name] = baseline
        return dict(self.about(), how="stream" if baseline.why else "graph", why=baseline.why,
                    sets=len(baseline.sets), fewer=baseline.fewer, outputs=baseline.outputs,
                    kernels=baseline.sets[0].kernels, flops=baseline.flops,
                    libraries=baseline.named.libraries if baseline.named else "",
                    seconds=time.monotonic() - started)

    def prepared(self, kind: str, request: Json, report: Report) -> Baseline:
        """Prepares a baseline. Waits if other processes use the GPU's memory. After a wait without success, it
        does not wait again until a baseline has been prepared."""
        end, pause = None, MEMORY_PAUSES[0]
        while True:
            baseline = Baseline(self, kind, report, request.get("function", kind))
            try:
                baseline.prepare(request)
                self.patience = MEMORY_PATIENCE
                return baseline
            except BaseException as error:
                baseline.keep(0)
                if not lacks_memory(error):
                    raise
                end = end or time.monotonic() + self.patience
                if time.monotonic() >= end:
                    self.patience = 0.0
                    raise
            report("waiting for GPU memory that other processes use")
            gc.collect()  # the objects in the error's frames can be freed only here
            torch.cuda.empty_cache()
            time.sleep(pause)
            pause = min(2 * pause, MEMORY_PAUSES[1])

    def take(self, request: Json, report: Report) -> Json:
        baseline, index = self.baselines.get(request["name"]), request["set"]
        if baseline is None:
            return {"failure": "%r is not prepared" % request["name"]}
        if request["mode"] not in SAMPLE_MODES:
            return {"failure": "there is no mode %r" % request["mode"]}
        if not 0 <= index < len(baseline.sets) or not 0 < request["count"] <= MAX_COUNT:
            return {"failure": "set %d cannot give %d samples" % (index, request["count"])}
        self.draws.forget()  # all baselines are prepared
        times = baseline.take(request["mode"], index, request["count"])
        if request["mode"] == "host":
            torch.cuda.empty_cache()  # plain calls may have allocated tens of GB of workspaces
        return {"us": times}

    def energy(self, request: Json, report: Report) -> Json:
        baseline, seconds = self.baselines.get(request["name"]), request["seconds"]
        if baseline is None:
            return {"failure": "%r is not prepared" % request["name"]}
        if not 0 < seconds <= MAX_ENERGY_SECONDS:
            return {"failure": "energy cannot be measured for %r seconds" % seconds}
        return baseline.energy(seconds)

    def drop(self, request: Json, report: Report) -> Json:
        baseline = self.baselines.pop(request["name"], None)
        if baseline is None:
            return {"failure": "%r is not prepared" % request["name"]}
        baseline.keep(0)
        del baseline
        self.draws.forget()
        gc.collect()
        torch.cuda.empty_cache()
        # The memory of a capture that could not be ended is freed only when the process ends.
        return {"broken": not self.baselines and bool(timed_call.UNFINISHED)}
