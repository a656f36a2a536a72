#!/usr/bin/env python3
# Baselines: PyTorch's own answer to a task, timed as cupel's GPU worker times a candidate. A child
# process beside the user's PyTorch; draws inputs as oracle.py does (by the same code) and replays a
# CUDA graph [flush of L2][event][the call][event], one replay a sample.
# Protocol: one JSON object a line, as oracle.py's; requests load, open, prepare, take, drop.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import gc
import importlib
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH leaves it out
import cuda_clock  # noqa: E402
import gpu_lock  # noqa: E402
import gpu_memory  # noqa: E402
import oracle  # noqa: E402

# oracle.serve() has imported PyTorch by the time of the first request, and these follow.
torch = agreement = timed_call = None

MAX_SETS = 64
MAX_COUNT = 1 << 18  # one line of JSON holds the samples
MODES = {"compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
KINDS = ("eager", "probe") + tuple(MODES)
SIGN_OF_LIFE = 20  # seconds
MEMORY_SHARE = 4  # one of so many bytes that are free may keep inputs
MEMORY_PATIENCE = 180.0  # seconds: for memory that others use, as src/gpu/patience.h has it
MEMORY_PAUSES = (1.0, 8.0)  # they double up to this
OTHERS = 3 << 30  # bytes of a GPU neither free nor PyTorch's: more than this cupel's own processes keep


class Unsupported(Exception):
    """This PyTorch or this machine cannot do it; str() says what would help."""


# --- a baseline -----------------------------------------------------------------------------------


def keep_saved_tensors():
    """A backward pass that is replayed must not consume what the forward pass saved. PyTorch 2.12 and
    later compile it where the default counts and not what has been set."""
    try:
        settings = importlib.import_module("torch._functorch.config")
    except ImportError:
        return
    if not hasattr(settings, "donated_buffer"):
        return
    settings.donated_buffer = False
    entry = getattr(settings, "_config", {}).get("donated_buffer")
    if hasattr(entry, "default"):
        entry.default = False


def compiled(function, kind):
    if not hasattr(torch, "compile"):
        raise Unsupported("PyTorch %s has no torch.compile; PyTorch 2 has it" % torch.__version__)
    keep_saved_tensors()
    mode = MODES[kind]
    return torch.compile(function, mode=mode) if mode else torch.compile(function)


class Draws:
    """Inputs of one setting: its baselines are prepared one after the other on the same ones, and to draw
    large ones takes seconds. Not of KernelBench problems, whose modules move to the GPU themselves."""

    def __init__(self):
        self.forget()

    def forget(self):
        self.task = self.setting = None
        self.drawn, self.bytes = {}, 0  # by seed

    def of(self, task, init, inputs, seed):
        if (self.task, self.setting) != (task, (init, inputs)):
            self.forget()
            self.task, self.setting = task, (init, inputs)
        if seed not in self.drawn:
            draw = task.draw(seed, init, inputs, answer=False)
            if task.is_problem or not self.has_room(draw):
                return draw
            self.drawn[seed] = draw
        return self.drawn[seed]

    def has_room(self, draw):
        held = oracle.leaves((draw.args, getattr(draw, "inputs", ()), getattr(draw, "grads", ())))
        tensors = {t.data_ptr(): t for t in held if isinstance(t, torch.Tensor)}
        size = sum(oracle.storage_bytes(t) for t in tensors.values())
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if (self.bytes + size) * MEMORY_SHARE > self.bytes + free:
            return False
        self.bytes += size
        return True


class Baseline:
    """A kind of answer to one setting, prepared on as many sets of inputs as memory allows."""

    def __init__(self, server, kind, report):
        self.server, self.kind = server, kind
        self.report = lambda text: report("baseline %s: %s" % (kind, text))
        self.sets, self.functions = [], []
        self.why, self.fewer, self.outputs, self.resets, self.flops = "", "", [], 0, 0

    def prepare(self, request):
        torch.cuda.empty_cache()
        budget = torch.cuda.mem_get_info()[0] // 3
        if self.kind in MODES:
            self.reset_compiler()
        seeds = [0] if self.kind == "probe" else request["seeds"][:MAX_SETS]
        # What a set keeps for itself; its graphs' memory is that of all others, too. As much as this is
        # for stays free: plain calls and the kernels beside need some.
        first, largest = torch.cuda.memory_allocated(), 0
        for i, seed in enumerate(seeds):
            before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
            if i > 0 and (before - first + largest > budget or free - largest < budget):
                self.fewer = "a third of the GPU's free memory holds no more"
                break
            self.report("set %d of %d" % (i + 1, len(seeds)))
            try:
                self.add(request, seed)
            except (RuntimeError, cuda_clock.DriverError) as error:
                if i == 0:
                    raise
                self.fewer = timed_call.short(str(error))
                self.keep(i)  # the sets that are ready will do
                torch.cuda.synchronize()  # unless the context is broken
                break
            torch.cuda.empty_cache()
            largest = max(largest, torch.cuda.memory_allocated() - before)

    def add(self, request, seed):
        if self.kind == "probe":
            new = self.new_set(timed_call.ProbeCall(self.server.clock))
            with self.server.gpu:
                return self.build(new, None)
        task = self.server.tasks[request["task"]]
        draw = self.server.draws.of(task, request["init"], request["inputs"], seed)
        with self.server.gpu:
            self.add_drawn(task, draw)

    def add_drawn(self, task, draw):
        call = timed_call.make_call(task, draw, self.server.device)
        torch.cuda.synchronize()  # the sets' streams do not wait for the one that inputs came by
        new = self.new_set(call)
        expected = new.watch()
        if len(self.sets) == 1:
            self.flops = timed_call.flops_of(call)
        function = new.call.plain
        if self.kind in MODES:
            # Of a KernelBench problem every set has a module of its own; otherwise there is one
            # function, whose compiled form serves all sets.
            shared = self.functions and not isinstance(function, torch.nn.Module)
            function = self.functions[0] if shared else compiled(function, self.kind)
        self.build(new, function)
        if len(self.sets) == 1:
            names = agreement.names_of(draw, expected)
            self.outputs = agreement.compared(names, new.results(), expected)
        else:
            new.results()
        new.outputs = []

    def new_set(self, call):
        self.sets.append(timed_call.Set(call, self.server.clock, self.server.room()))
        return self.sets[-1]

    def build(self, new, function):
        """Warms up and captures. Where the first set cannot be captured the stream is timed."""
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
                # The end of a broken capture fails too; what broke it came before.
                first = error.__context__ if "capture" in str(error) else None
                if lacks_memory(first or error):
                    raise
                why = timed_call.short(str(first or error))
        if len(self.sets) > 1:
            raise RuntimeError(why)
        self.why = why
        new.give_up_graphs()
        torch.cuda.synchronize()  # a broken context ends here
        new.warm_up(function)

    def reset_compiler(self):
        self.server.reset_compiler()
        self.resets = self.server.resets

    def take(self, mode, index, count):
        chosen = self.sets[index]
        if mode == "cold":
            sample = lambda: chosen.sample(True)  # noqa: E731
        elif mode == "warm":
            sample = lambda: chosen.sample(False)  # noqa: E731
            sample()
        else:
            # Another baseline's reset has dropped the compiled code that plain calls need.
            if self.kind in MODES and self.resets != self.server.resets:
                self.reset_compiler()
            chosen.run_a_few_times()
            sample = chosen.host_sample
        samples, said = [], time.monotonic()
        while len(samples) < count:
            samples.append(sample())
            if time.monotonic() - said > SIGN_OF_LIFE:
                self.report("%d of %d samples" % (len(samples), count))
                said = time.monotonic()
        return samples

    def keep(self, count):
        for one in self.sets[count:]:
            one.free()
        del self.sets[count:], self.functions[count:]


def lacks_memory(error):
    """Memory of the GPU that other processes use, and may give back soon."""
    if not gpu_memory.was_lacking(error):
        return False
    try:
        free, total = torch.cuda.mem_get_info()
    except RuntimeError:
        return False  # after some errors nothing works
    return total - free - torch.cuda.memory_reserved() > OTHERS


# --- protocol -------------------------------------------------------------------------------------


def forbid_tf32():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


def tf32_is_allowed():
    return bool(torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32 or
                torch.get_float32_matmul_precision() != "highest")


class BaselineServer(oracle.Server):
    def __init__(self, channel, folders):
        super().__init__(channel, folders)
        self.clock, self.device, self.baselines, self.resets = None, None, {}, 0
        self.gpu = gpu_lock.SharedUse("")
        self.draws = Draws()
        self.patience = MEMORY_PATIENCE
        self.last_room = None

    def answer(self, request, report):
        global torch, agreement, timed_call
        import agreement
        import timed_call
        torch = oracle.torch
        operation = request["op"]
        if operation not in ("open", "prepare", "take", "drop"):
            return super().answer(request, report)
        if operation != "open" and self.clock is None:
            return {"failure": "nothing is open"}
        task = self.tasks.get(request.get("task"))
        try:
            return getattr(self, operation)(request, report)
        except Unsupported as error:
            failure = "unsupported: %s" % error
        except cuda_clock.DriverError as error:
            failure = str(error)
        except Exception as error:
            failure = timed_call.short(oracle.describe(error, task.path if task else ""))
        # What the error's frames held can go only now.
        return {"failure": failure, "broken": self.is_broken()}

    def is_broken(self):
        """After some errors of the GPU nothing works until the process ends."""
        try:
            gc.collect()
            if self.clock is not None:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            return False
        except Exception:
            return True

    def open(self, request, report):
        if self.clock is not None:
            return {"failure": "it is open already"}
        version, ordinal = torch.__version__, request["device"]
        if torch.version.cuda is None:
            raise Unsupported("this PyTorch (%s) is built without CUDA; install a CUDA build of "
                              "PyTorch, or set CUPEL_PYTHON to a Python that has one" % version)
        if not torch.cuda.is_available():
            raise Unsupported("PyTorch %s (CUDA %s) finds no GPU; see whether nvidia-smi does, and "
                              "what CUDA_VISIBLE_DEVICES says" % (version, torch.version.cuda))
        if ordinal >= torch.cuda.device_count():
            raise Unsupported("PyTorch sees %d GPUs and none of number %d" %
                              (torch.cuda.device_count(), ordinal))
        torch.cuda.set_device(ordinal)
        self.device = self.device_of(ordinal)
        self.gpu = gpu_lock.SharedUse(request.get("lock", ""), waiting=lambda: report(
            "waiting for the GPU, on which another process measures"))
        forbid_tf32()
        with self.gpu:
            clock = cuda_clock.Clock(request, self.allocate)
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            clock.flush(stream.cuda_stream)  # once outside of any graph: loads the kernels
            clock.probe(stream.cuda_stream)
            stream.synchronize()
        self.clock = clock
        return dict(self.about(), cuda=torch.version.cuda)

    def loading(self):
        return contextlib.nullcontext()  # what a file makes when it is loaded, its function uses on the GPU

    def device_of(self, ordinal):
        return torch.device("cuda", ordinal)

    def allocate(self, size):
        return torch.zeros(size, dtype=torch.uint8, device=self.device)

    def about(self):
        return {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(self.device),
                "tf32": tf32_is_allowed()}

    def reset_compiler(self):
        if hasattr(torch, "compile"):
            importlib.import_module("torch._dynamo").reset()
        self.resets += 1

    def room(self):
        if self.last_room is None or self.last_room.is_over:
            self.last_room = timed_call.Room()
        return self.last_room

    def prepare(self, request, report):
        name, kind = request["name"], request["kind"]
        if kind not in KINDS:
            return {"failure": "there is no baseline %r" % kind}
        if name in self.baselines:
            return {"failure": "%r is prepared already" % name}
        if kind != "probe" and not request["seeds"]:
            return {"failure": "without a seed there are no inputs"}
        started = time.monotonic()
        forbid_tf32()  # the task's code may have allowed it
        self.gpu.waiting = lambda: report("waiting for the GPU, on which another process measures")
        baseline = self.prepared(kind, request, report)
        self.baselines[name] = baseline
        return dict(self.about(), how="stream" if baseline.why else "graph", why=baseline.why,
                    sets=len(baseline.sets), fewer=baseline.fewer, outputs=baseline.outputs,
                    kernels=baseline.sets[0].kernels, flops=baseline.flops,
                    seconds=time.monotonic() - started)

    def prepared(self, kind, request, report):
        """A baseline, as soon as there is memory for it. Once others have kept theirs for long, nothing is
        waited for until a baseline finds room again."""
        end, pause = None, MEMORY_PAUSES[0]
        while True:
            baseline = Baseline(self, kind, report)
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
            report("waiting for memory of the GPU, which other processes use")
            gc.collect()  # what the error's frames held can go only now
            torch.cuda.empty_cache()
            time.sleep(pause)
            pause = min(2 * pause, MEMORY_PAUSES[1])

    def take(self, request, report):
        baseline, index = self.baselines.get(request["name"]), request["set"]
        if baseline is None:
            return {"failure": "%r is not prepared" % request["name"]}
        if request["mode"] not in ("cold", "warm", "host"):
            return {"failure": "there is no mode %r" % request["mode"]}
        if not 0 <= index < len(baseline.sets) or not 0 < request["count"] <= MAX_COUNT:
            return {"failure": "no set %d, or no %d samples" % (index, request["count"])}
        self.draws.forget()  # all are prepared
        times = baseline.take(request["mode"], index, request["count"])
        if request["mode"] == "host":
            torch.cuda.empty_cache()  # for others: plain calls may have taken tens of GB for workspaces
        return {"us": times}

    def drop(self, request, report):
        baseline = self.baselines.pop(request["name"], None)
        if baseline is None:
            return {"failure": "%r is not prepared" % request["name"]}
        baseline.keep(0)
        del baseline
        self.draws.forget()
        gc.collect()
        torch.cuda.empty_cache()
        # The memory of a capture that could not be ended goes with the process alone.
        return {"broken": not self.baselines and bool(timed_call.UNFINISHED)}


if __name__ == "__main__":
    sys.exit(oracle.serve(BaselineServer))
