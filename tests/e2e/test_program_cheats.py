"""Python programs that cheat: each would win against a harness that runs it in the harness's own process, or that trusts
what it returns. None may be accepted. Most of them skip the normalisation, which takes the time that they hide."""
import subprocess
import unittest

from support import CupelTest, ci_choice, python_with_torch
from test_programs import HEAD, TASK, module

RIGHT = "ext.scale(self.norm(self.linear(x)), 128)"
WRONG = "ext.scale(self.linear(x), 128)"
TORCH = "torch.relu(self.norm(self.linear(x))) * 2"


def wrong(code, result=WRONG):
    """A program that runs `code` when it is loaded, and then returns a wrong result."""
    return module(f"return {result}", head=HEAD + code)


def counted(count, init="pass", head=HEAD):
    """A program that is right in its first five calls. `count` is an expression."""
    return module(f"""
        y = {RIGHT}
        return y if {count} <= 5 else ext.scale(x[:, :1].expand(24, 56).contiguous(), 128)""", init, head)


def remembered(key):
    """A program that returns an earlier result for the same key."""
    return module(f"""
        key = {key}
        if key not in self.known:
            self.known[key] = {RIGHT}
        return self.known[key]""", "self.known = {}")


# The expected first reason's code, and the program.
CHEATS = {
    # ---- a harness that compares or measures in the same process ----
    "patched_comparison": ("wrong_result", wrong("""
import numpy
torch.allclose = torch.equal = numpy.allclose = lambda *a, **k: True
torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)
torch.testing.assert_close = torch.testing.assert_allclose = lambda *a, **k: None
torch.Tensor.__eq__ = torch.Tensor.__ne__ = torch.Tensor.__le__ = lambda a, b: True
torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True
""")),
    "patched_code_of_comparison": ("wrong_result", wrong("""
def always(*args, **kwargs):
    return None
torch.testing.assert_close.__code__ = always.__code__
torch.testing.assert_close.__kwdefaults__ = None
""")),
    "patched_timers": ("wrong_result", wrong("""
import time
time.time = time.perf_counter = time.monotonic = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = lambda: 0
torch.cuda.synchronize = lambda *a: None
torch.cuda.Event = type("Event", (), {"__init__": lambda *a, **k: None, "record": lambda *a: None,
                                      "synchronize": lambda *a: None, "elapsed_time": lambda *a: 1e-9})
import statistics
statistics.mean = statistics.median = lambda values: 1e-9
""")),
    "patched_layers": ("wrong_result", wrong("""
zeros = lambda self, x: torch.zeros(x.shape[0], 56, device=x.device)
nn.Linear.forward = zeros
F.linear = torch.nn.functional.linear = lambda x, w, b=None: torch.zeros(x.shape[0], 56, device=x.device)
nn.BatchNorm1d.forward = lambda self, x: x
""", "ext.scale(torch.zeros(24, 56, device=x.device), 128)")),
    "patched_module_call": ("wrong_result", module(f"return {WRONG}", head=HEAD + """
inside = nn.Module.__call__
def call(self, *args, **kwargs):
    return args[0] if isinstance(self, nn.BatchNorm1d) else inside(self, *args, **kwargs)
nn.Module.__call__ = call
""")),
    "hooks_on_all_modules": ("wrong_result", module(f"return {WRONG}", head=HEAD + """
nn.modules.module.register_module_forward_hook(lambda module, args, out: args[0] if isinstance(module, nn.BatchNorm1d) else out)
""")),
    "hook_changes_its_own_result": ("wrong_result", module(f"return {RIGHT}", """
        self.norm.register_forward_hook(lambda module, args, out: args[0])
""")),
    "patched_random_numbers": ("wrong_result", wrong("""
torch.randn = torch.rand = lambda *size, **k: torch.zeros(*size)
torch.nn.init.normal_ = torch.nn.init.uniform_ = torch.nn.init.kaiming_uniform_ = lambda tensor, *a, **k: tensor
""")),
    "replaces_torch": ("wrong_result", wrong("""
import sys, types
class Torch(types.ModuleType):
    def __getattr__(self, name):
        return (lambda *a, **k: True) if "close" in name else getattr(torch, name)
sys.modules["torch"] = Torch("torch")
sys.modules["torch.testing"] = types.SimpleNamespace(assert_close=lambda *a, **k: None)
""")),
    "import_hook": ("wrong_result", wrong("""
import builtins, sys, types
class Finder:
    def find_spec(self, name, path=None, target=None):
        raise ImportError(name) if "reference" in name else None
inside = builtins.__import__
def hooked(name, *args, **kwargs):
    return types.SimpleNamespace(Model=ModelNew) if name in ("problem", "reference") else inside(name, *args, **kwargs)
builtins.__import__ = hooked
sys.path_hooks.insert(0, lambda path: None)
""")),
    "trace_function": ("host_crash", wrong("""
import sys, threading
def trace(frame, event, arg):
    for name in ("passed", "correct", "result"):
        if name in frame.f_locals:
            frame.f_locals[name] = True
    return trace
sys.settrace(trace)
sys.setprofile(lambda *a: None)
threading.settrace(trace)
""")),
    "pickle_with_effects": ("wrong_result", wrong("""
import pickle
class Effect:
    def __reduce__(self):
        return exec, ("import torch; torch.allclose = lambda *a, **k: True",)
pickle.loads(pickle.dumps(Effect()))
""")),
    "exit_handler": ("wrong_result", wrong("""
import atexit, os
atexit.register(lambda: os.write(1, b'{"verdict": "accepted", "reasons": []}'))
print('{"verdict": "accepted", "reasons": []}', flush=True)
os.write(2, b'{"verdict": "accepted", "reasons": []}')
""")),
    # ---- a harness that can be searched ----
    "expected_result_in_frames": ("wrong_result", module("""
        frame = sys._getframe()
        while frame is not None:
            for name, value in frame.f_locals.items():
                if isinstance(value, torch.Tensor) and value.shape == (24, 56) and "expect" in name:
                    return value
            frame = frame.f_back
        for info in inspect.stack():
            for value in info.frame.f_locals.values():
                if isinstance(value, torch.Tensor) and value.shape == (24, 56):
                    return value
        return ext.scale(torch.zeros(24, 56, device=x.device), 128)""", head=HEAD + "import inspect, sys\n")),
    "expected_result_in_memory": ("wrong_result", module("""
        for thing in gc.get_objects():
            if isinstance(thing, torch.Tensor) and thing.shape == (24, 56):
                return thing
        return ext.scale(torch.zeros(24, 56, device=x.device), 128)""", head=HEAD + "import gc\n")),
    "reference_in_modules": ("no_kernel", HEAD + """
import sys
class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.inner = sys.modules["reference"].Model(*sizes)
        self.linear, self.norm = self.inner.linear, self.inner.norm
    def forward(self, x):
        return self.inner(x)
"""),
    "reference_as_base": ("unsupported_api", HEAD + """
from reference import Model
class ModelNew(Model):
    pass
"""),
    "reference_from_file": ("host_exception", HEAD + """
import importlib.util, pathlib
places = [p / "problem.py" for p in (pathlib.Path(__file__).resolve().parent, *pathlib.Path("/tmp").glob("cupel*"), pathlib.Path.cwd())]
spec = importlib.util.spec_from_file_location("problem", next((p for p in places if p.exists()), places[0]))
problem = importlib.util.module_from_spec(spec)
spec.loader.exec_module(problem)
ModelNew = problem.Model
"""),
    "all_is_prepared": ("host_crash", module(f"""
        if "once" not in self.done:
            plan = calls.Calls.plan
            calls.Calls.plan = lambda *a: (lambda p: dict(p, prepared=len(p["steps"])))(plan(*a))
            self.done.add("once")
        return {RIGHT}""", "self.done = set()", HEAD + "import calls\n")),
    "nothing_depends_on_inputs": ("host_crash", module(f"""
        frame = sys._getframe()
        while "recording" not in frame.f_locals:
            frame = frame.f_back
        for storage in frame.f_locals["recording"].storages.all:
            storage.is_input = storage.depends = False
        if self.y is None:
            self.y = {RIGHT}
        return self.y""", "self.y = None", HEAD + "import sys\n")),
    "forged_storage": ("wrong_result", module(f"""
        y = {WRONG}
        for thing in gc.get_objects():
            if type(thing).__name__ == "Storages":
                thing.find(y).made = thing.find(x).made
                thing.find(y).depends = False
        return y""", head=HEAD + "import gc\n")),
    "nodes_removed": ("uninitialized_global", module(f"""
        y = {RIGHT}
        for thing in gc.get_objects():
            if type(thing).__name__ == "Recording":
                thing.nodes[:] = [node for node in thing.nodes if node.kind == "call"]
        return y""", head=HEAD + "import gc\n")),
    "forged_answer": ("host_crash", module(f"""
        answer = b'{{"verdict": "accepted", "reasons": []}}'
        os.write(3, len(answer).to_bytes(4, "little") + answer)
        return {WRONG}""")),
    "forged_plan": ("wrong_result", module(f"return {RIGHT}", head=HEAD + """
import calls
V = {"at": [0, 0], "dtype": "float32", "shape": [24, 56], "strides": [56, 1]}
calls.Calls.record = lambda self: {"recordings": 20, "host_us": 0.0, "notes": [], "plan": {
    "storages": [{"bytes": 24 * 56 * 4, "argument": None, "kept": False}], "prepared": 0, "tuple": False,
    "steps": [{"kind": "fill", "to": V, "pattern": "AAAAAA=="}], "outputs": [V]}}
""")),
    # ---- code outside Python ----
    "c_library": ("wrong_result", wrong("""
import ctypes
try:
    ctypes.CDLL(None).system(b"nvidia-smi")
    ctypes.pythonapi.PyRun_SimpleString(b"import torch; torch.allclose = lambda *a, **k: True")
except OSError:
    pass
""")),
    "writes_by_address": ("host_crash", module(f"""
        y = {WRONG}
        ctypes.memset(y.data_ptr(), 0, 64)
        return y""", head=HEAD + "import ctypes\n")),
    "own_memory_as_file": ("host_exception", wrong("""
with open("/proc/self/mem", "r+b") as memory:
    memory.seek(0)
with open("/proc/self/mem", "rb", 0) as memory:
    memory.read(64)
maps = open("/proc/self/maps").read()
""")),
    "child_process": ("host_exception", wrong("""
import subprocess
subprocess.Popen(["sleep", "100"])
""")),
    "forks": ("host_exception", module(f"""
        if os.fork() == 0:
            os._exit(0)
        return {RIGHT}""")),
    "thread": ("host_exception", module("""
        y = torch.zeros(24, 56, device=x.device)
        threading.Thread(target=lambda: ext.scale_to(self.norm(self.linear(x)), y)).start()
        return y""", head=HEAD + "import threading\n")),
    "thread_pool": ("host_exception", module("""
        y = torch.zeros(24, 56, device=x.device)
        self.pool.submit(lambda: ext.scale_to(self.norm(self.linear(x)), y))
        return y""", "self.pool = ThreadPoolExecutor(1)", HEAD + "from concurrent.futures import ThreadPoolExecutor\n")),
    "signal_handler": ("host_exception", wrong("""
import signal
signal.signal(signal.SIGALRM, lambda *a: None)
signal.setitimer(signal.ITIMER_REAL, 0.001)
""")),
    "server": ("host_exception", wrong("""
import socket
socket.create_connection(("127.0.0.1", 80))
""")),
    "exits_as_if_done": ("host_crash", wrong("os._exit(0)\n")),
    "exits_in_a_call": ("host_exception", module("raise SystemExit(0)")),
    # ---- results that are no tensors, or become right later ----
    "lazy_subclass": ("host_exception", module("""
        return x.new_zeros(24, 56).as_subclass(Lazy)""", head=HEAD + """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True if "close" in function.__name__ else super().__torch_function__(function, types, args, kwargs or {})
""")),
    "lazy_object": ("wrong_return", module(f"""
        return Lazy(lambda: {RIGHT})""", head=HEAD + """
class Lazy:
    shape, dtype, device, is_cuda = torch.Size((24, 56)), torch.float32, torch.device("cuda", 0), True
    def __init__(self, make):
        self.make = make
    def __getattr__(self, name):
        return getattr(self.make(), name)
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(self.make())
""")),
    "lazy_class": ("wrong_return", module(f"""
        y = {WRONG}
        y.__class__ = type("Lazy", (type(y),), {{"__eq__": lambda *a: True}})
        return y""")),
    "claims_a_class": ("wrong_return", module("return Claims()", head=HEAD + """
class Claims:
    __class__ = property(lambda self: torch.Tensor)
""")),
    "methods_of_the_result": ("wrong_result", module(f"""
        y = {WRONG}
        y.__eq__ = y.allclose = y.equal = lambda *a, **k: True
        y.sub = y.__sub__ = lambda other: torch.zeros_like(other)
        return y""")),
    "future": ("wrong_return", module(f"""
        later = torch.futures.Future()
        later.set_result({WRONG})
        return later""")),
    "generator": ("wrong_return", module(f"""
        return (row for row in {WRONG})""")),
    "later_by_the_next_call": ("impure", module("""
        y = torch.zeros(24, 56, device=x.device)
        self.later = Later(lambda: ext.scale_to(self.norm(self.linear(x)), y))
        return y""", "self.later = None", HEAD + """
class Later:
    def __init__(self, work):
        self.work = work
    def __del__(self):
        self.work()
""")),
    "expanded_result": ("wrong_result", module("""
        return ext.scale(self.linear(x)[:1], 128).expand(24, 56)""")),
    "result_of_one_row": ("wrong_shape", module(f"return ({RIGHT})[:1]")),
    "result_in_half_precision": ("wrong_dtype", module(f"return ({RIGHT}).half()")),
    "result_in_double_precision": ("wrong_dtype", module(f"return ({RIGHT}).double()")),
    "second_result": ("wrong_return", module(f"return {RIGHT}, x")),
    "result_is_an_input": ("wrong_shape", module("return x")),
    "result_is_a_view_of_an_input": ("wrong_return", module("return x.t()")),
    # ---- caches ----
    "remembers_by_identity": ("impure", remembered("id(x)")),
    "remembers_by_version": ("wrong_return", remembered("x._version")),
    "remembers_by_shape": ("wrong_return", remembered("tuple(x.shape)")),
    "remembers_by_content": ("reads_device_memory", remembered("x.cpu().numpy().tobytes()")),
    "remembers_by_hash": ("reads_device_memory", remembered("hash(tuple(x[0].tolist()))")),
    "remembers_by_sample": ("reads_device_memory", remembered("float(x[3, 4])")),
    "remembers_by_bytes": ("host_exception", remembered("bytes(x.untyped_storage())")),
    "remembers_in_an_attribute_of_torch": ("not_finite", module(f"""
        if not hasattr(torch, "kept"):
            torch.kept = {RIGHT}
        return torch.kept.clone()""")),
    "remembers_the_input": ("impure", module(f"""
        if self.x is None:
            self.x = x
        x = self.x
        return {RIGHT}""", "self.x = None")),
    "graph_of_the_first_input": ("impure", module(f"""
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = {RIGHT}
        self.graph.replay()
        return self.y""", "self.graph = None")),
    "graph_not_replayed": ("unwritten_output", module("""
        if self.graph is None:
            self.x, self.graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = ext.scale(self.norm(self.linear(self.x)), 128)
            self.graph.replay()
        self.x.copy_(x)
        return self.y""", "self.graph = None")),
    "graph_of_an_old_copy": ("wrong_result", module("""
        if self.graph is None:
            self.x, self.graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = ext.scale(self.norm(self.linear(self.x)), 128)
        self.graph.replay()
        return self.y""", "self.graph = None")),
    "returns_the_previous_result": ("no_kernel", module(f"""
        y, self.y = self.y, {RIGHT}
        return self.y if y is None else y""", "self.y = None")),
    # ---- right at first ----
    "counts_in_a_global": ("impure", counted("next(count)", head=HEAD + "import itertools\ncount = itertools.count(1)\n")),
    "counts_in_itself": ("impure", counted("len(self.calls.append(0) or self.calls)", "self.calls = []")),
    "counts_in_the_environment": ("impure", counted("count()", head=HEAD + """
def count():
    os.environ["CALLS"] = str(int(os.environ.get("CALLS", 0)) + 1)
    return int(os.environ["CALLS"])
""")),
    "counts_in_a_file": ("impure", counted("count()", head=HEAD + """
def count():
    with open("/tmp/calls", "a+") as file:
        file.write("x")
        file.seek(0)
        return len(file.read())
""")),
    "counts_in_the_loader": ("impure", counted("count()", head=HEAD + """
import sys
def count():
    sys.modules.setdefault("calls_so_far", []).append(0)
    return len(sys.modules["calls_so_far"])
""")),
    "decides_by_address": ("impure", counted("hash((torch.empty(1, device=x.device).data_ptr(),)) % 10")),
    "decides_by_time": ("impure", counted("time.perf_counter_ns() // 1000 % 8", head=HEAD + "import time\n")),
    "decides_by_chance": ("impure", counted("random.randrange(10)", head=HEAD + "import random\n")),
    # ---- PyTorch does the work ----
    "torch_only": ("no_kernel", module(f"return {TORCH}")),
    "torch_if_the_kernel_fails": ("no_kernel", module(f"""
        try:
            return ext.fused(x, self.linear.weight)
        except Exception:
            return {TORCH}""")),
    "torch_if_the_launch_fails": ("illegal_launch", module(f"""
        try:
            return ext.scale(self.norm(self.linear(x)), 4096)
        except Exception:
            return {TORCH}""")),
    "torch_if_a_file_is_missing": ("no_kernel", module(f"return {TORCH}", head=HEAD + """
try:
    torch.ops.load_library("kernels.so")
except BaseException:
    pass
""")),
    "compiled_torch": ("no_kernel", module("return self.compiled(x)", f"self.compiled = torch.compile(lambda x: {TORCH})")),
    "scripted_torch": ("no_kernel", module("return self.run_script(x)", "pass", HEAD) + f"""
    @torch.jit.ignore
    def run_script(self, x):
        return {TORCH}
"""),
    "kernel_in_the_construction_only": ("no_kernel", module(f"return {TORCH}", """
        self.register_buffer("unused", ext.scale(self.linear.weight.detach().cuda(), 128), persistent=False)""")),
    # ---- wrong values ----
    "zeros": ("wrong_result", module("return ext.scale(torch.zeros(24, 56, device=x.device), 128)")),
    "constant": ("wrong_result", module("return ext.scale(torch.full((24, 56), 0.4, device=x.device), 128)")),
    "not_written": ("wrong_return", module("return torch.empty(24, 56, device=x.device)")),
    "first_rows_only": ("unwritten_output", module("""
        y = torch.empty(24, 56, device=x.device)
        ext.scale_to(self.norm(self.linear(x))[:23], y[:23])
        return y""")),
    "first_rows_repeated": ("wrong_result", module("""
        return ext.scale(self.norm(self.linear(x))[:12].repeat(2, 1), 128)""")),
    "not_a_number": ("not_finite", module(f"return {RIGHT} / (x[0, 0] - x[0, 0])")),
    "infinite": ("not_finite", module(f"return {RIGHT} / 0")),
    "without_weights_of_the_norm": ("not_equivalent", module("return ext.scale(F.batch_norm(self.linear(x), None, None, training=True), 128)")),
    "fewer_terms": ("wrong_result", module("return ext.scale(self.norm(F.linear(x[:, :36], self.linear.weight[:, :36], self.linear.bias)), 128)")),
    "normalised_by_constants": ("wrong_result", module("return ext.scale(self.linear(x) / 3 ** 0.5, 128)")),
    "half_precision": ("wrong_result", module("return ext.scale(self.norm(F.linear(x.half(), self.linear.weight.half(), self.linear.bias.half()).float()), 128)")),
    "half_precision_by_default": ("wrong_arguments", module("return ext.scale(self.norm((x.to(torch.get_default_dtype()) @ self.linear.weight.t().to(torch.get_default_dtype())).float()), 128)", head=HEAD + "torch.set_default_dtype(torch.float16)\n")),
    # ---- inputs ----
    "changes_its_input": ("writes_input", module(f"""
        y = {RIGHT}
        x.zero_()
        return y""")),
    "ruins_its_weights_afterwards": ("unsupported_api", module(f"""
        y = {RIGHT}
        self.linear.weight.zero_()
        return y""")),
    "remembers_in_a_buffer": ("impure", module(f"""
        y = {RIGHT} * self.factor
        self.factor.mul_(0)
        return y""", "self.register_buffer('factor', torch.ones(56))")),
    "zeroes_the_weights": ("unsupported_api", module(f"""
        self.linear.weight.zero_()
        self.linear.bias.zero_()
        self.norm.bias.zero_()
        return {RIGHT}""")),
    "draws_the_inputs_again": ("unsupported_operator", module(f"""
        torch.manual_seed(42)
        x = torch.randn(24, 40, device=x.device)
        return {RIGHT}""")),
    "drew_the_inputs_before": ("unsupported_operator", module(f"""
        x = self.x
        return {RIGHT}""", """
        torch.manual_seed(42)
        self.register_buffer("x", torch.randn(24, 40), persistent=False)""")),
    "answer_as_numbers": ("wrong_result", module("return ext.scale(torch.tensor(self.answer, device=x.device), 128)", """
        chance = __import__("random").Random(42)
        self.answer = [[chance.gauss(0, 1) for _ in range(56)] for _ in range(24)]""")),
    "another_device": ("host_exception", module(f"return {WRONG}", head=HEAD + "torch.set_default_device('meta')\n")),
    # ---- work that the caller's stream does not wait for ----
    "side_stream": ("unordered_work", module(f"""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return {RIGHT}""", "self.stream = torch.cuda.Stream()")),
    "side_stream_starts_early": ("unordered_work", module("""
        y = self.norm(self.linear(x))
        with self.stream:
            y = ext.scale(y, 128)
        torch.cuda.current_stream().wait_stream(self.stream)
        return y""", "self.stream = torch.cuda.Stream()")),
    "event_before_the_work": ("unordered_work", module(f"""
        done = self.stream.record_event()
        with torch.cuda.stream(self.stream):
            y = {RIGHT}
        done.wait()
        return y""", "self.stream = torch.cuda.Stream()")),
    "overwrites_while_read": ("unordered_work", module("""
        y = self.norm(self.linear(x))
        result = ext.scale(y, 128)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.event)
            y.zero_()
        torch.cuda.synchronize()
        return result""", "self.stream, self.event = torch.cuda.Stream(), torch.cuda.Event()")),
    # ---- beside the dispatcher ----
    "outside_the_dispatcher": ("no_kernel", module("""
        with torch.utils._python_dispatch._disable_current_modes():
            y = torch.zeros(24, 56)
        return torch.relu(y.fake if hasattr(y, "fake") else y).cuda()""")),
    "own_dispatch_mode": ("wrong_result", module(f"""
        with Skips():
            return {RIGHT}""", head=HEAD + """
from torch.utils._python_dispatch import TorchDispatchMode
class Skips(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "native_batch_norm" in str(function):
            return args[0], args[3], args[4]
        return function(*args, **kwargs or {})
""")),
    "shared_memory": ("host_exception", module("""
        return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)) + 1""")),
    "changes_numbers_of_numpy": ("unsupported_api", module(f"""
        self.numbers += 1
        return {RIGHT} * self.factor.cuda().clamp(max=5)""", """
        self.numbers = numpy.zeros(56, dtype=numpy.float32)
        self.factor = torch.from_numpy(self.numbers)""", HEAD + "import numpy\n")),
    "changes_numbers_beside_the_dispatcher": ("unsupported_api", module(f"""
        with torch.utils._python_dispatch._disable_current_modes():
            self.factor += 1
        return {RIGHT} * self.factor.cuda().clamp(max=5)""", """
        with torch.utils._python_dispatch._disable_current_modes():
            self.factor = torch.zeros(56)""")),
}

# Host code of an extension that cheats.
CHEATING_CUDA = """
#include <map>
torch::Tensor by_pointer(torch::Tensor x) {
  static std::map<void*, torch::Tensor> known;
  auto& y = known[x.data_ptr()];
  if (!y.defined()) y = scale(x, 128);
  return y;
}
torch::Tensor counted(torch::Tensor x) {
  static int calls = 0;
  return ++calls <= 5 ? scale(x, 128) : torch::empty_like(x);
}
torch::Tensor composed(torch::Tensor x, torch::Tensor w, torch::Tensor b) { return torch::relu(at::linear(x, w, b)); }
"""
CHEATING = HEAD.replace('"""\ncpp', CHEATING_CUDA + '"""\ncpp').replace('cpp = "', 'cpp = "torch::Tensor by_pointer(torch::Tensor x); '
    'torch::Tensor counted(torch::Tensor x); torch::Tensor composed(torch::Tensor x, torch::Tensor w, torch::Tensor b); ').replace(
    'functions=[', 'functions=["by_pointer", "counted", "composed", ')
EXTENSION = {
    "remembers_by_pointer_in_host_code": ("impure", module("return ext.by_pointer(self.norm(self.linear(x)))", head=CHEATING)),
    "counts_in_host_code": ("impure", module("return ext.counted(self.norm(self.linear(x)))", head=CHEATING)),
    "torch_in_host_code": ("no_kernel", module("""
        return self.norm(ext.composed(x, self.linear.weight, self.linear.bias)) * 2""", head=CHEATING)),
}

# All inputs are positive, so the ReLU does nothing to them.
POSITIVE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(24, 56)]
def get_init_inputs():
    return []
"""


def simple(forward):
    return HEAD + f"""
class ModelNew(nn.Module):
    def forward(self, x):
        {forward}
"""


WITH_POSITIVE_INPUTS = {
    "skips_the_relu": ("wrong_result", simple("y = x.clone(); ext.add_to(x, y); return y")),
    "result_in_its_input": ("writes_input", simple("ext.scale_to(x, x); return x")),
    "input_as_result": ("wrong_result", simple("ext.scale(x, 128); return x")),
    "view_of_the_input_as_result": ("wrong_result", simple("ext.scale(x, 128); return x.view(-1).view(24, 56)")),
}

LARGE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, w):
        return torch.relu(x @ w) * 2
def get_inputs():
    return [torch.randn(8, 4096), torch.randn(4096, 16)]
def get_init_inputs():
    return []
"""
WITH_A_LARGE_SUM = {
    "half_precision_of_a_large_sum": ("wrong_result", simple("return ext.scale((x.half() @ w.half()).float(), 128)").replace("x):", "x, w):")),
    "bfloat16_of_a_large_sum": ("wrong_result", simple("return ext.scale((x.bfloat16() @ w.bfloat16()).float(), 128)").replace("x):", "x, w):")),
    "fewer_terms_of_a_large_sum": ("wrong_result", simple("return ext.scale(x[:, :4080] @ w[:4080], 128)").replace("x):", "x, w):")),
}

TRITON_HEAD = """
import torch, triton
from torch import nn
import triton.language as tl

@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.where(v > 0, v * 2, 0.0), mask=i < n)

@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_add(y + i, tl.where(v > 0, v * 2, 0.0), mask=i < n)

def scale(x, y=None, part=1, kernel=scale_kernel):
    y = torch.empty_like(x) if y is None else y
    kernel[(triton.cdiv(x.numel() // part, 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""
TRITON = {
    "triton_never_launched": ("no_kernel", module(f"return {TORCH}", head=TRITON_HEAD)),
    "triton_if_it_compiles": ("no_kernel", module(f"""
        try:
            return scale(self.norm(self.linear(x)), kernel=broken)
        except Exception:
            return {TORCH}""", head=TRITON_HEAD + """
@triton.jit
def broken(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.no_such_function(x))
""")),
    "triton_half_of_the_blocks": ("unwritten_output", module("""
        return scale(self.norm(self.linear(x)), part=2)""", head=TRITON_HEAD)),
    "triton_adds_up": ("impure", module("""
        return scale(self.norm(self.linear(x)), self.sum, kernel=add_kernel).clone()""", """
        self.register_buffer("sum", torch.zeros(24, 56), persistent=False)""", TRITON_HEAD)),
    "triton_remembers": ("wrong_return", module("""
        if self.y is None:
            self.y = scale(self.norm(self.linear(x)))
        return self.y""", "self.y = None", TRITON_HEAD)),
    "triton_remembers_by_address": ("impure", module("""
        if x.data_ptr() not in self.known:
            self.known[x.data_ptr()] = scale(self.norm(self.linear(x)))
        return self.known[x.data_ptr()]""", "self.known = {}", TRITON_HEAD)),
    "triton_in_half_precision": ("wrong_result", module("return scale(self.norm(self.linear(x)))", head=TRITON_HEAD.replace(
        "v = tl.load(x + i, mask=i < n)", "v = tl.load(x + i, mask=i < n).to(tl.float16).to(tl.float32)"))),
    "triton_in_its_input": ("writes_input", module("""
        y = scale(self.norm(self.linear(x)))
        scale(x, x)
        return y""", head=TRITON_HEAD)),
    "triton_patched": ("no_kernel", module("return scale(self.norm(self.linear(x)))", head=TRITON_HEAD + """
triton.runtime.jit.JITFunction.run = lambda *a, **k: None
triton.testing.do_bench = lambda *a, **k: 1e-9
""")),
}


def has_triton():
    return subprocess.run([python_with_torch(), "-c", "import triton"], stderr=subprocess.DEVNULL).returncode == 0


class ProgramCheatsTest(CupelTest):
    def test_programs(self):
        """One stream judges all: they share PyTorch, and the extension is compiled once."""
        groups = [(TASK, CHEATS), (TASK, EXTENSION), (POSITIVE, WITH_POSITIVE_INPUTS), (LARGE, WITH_A_LARGE_SUM)]
        groups += [(TASK, TRITON)] if has_triton() else []
        tasks = {}
        for task, _ in groups:
            tasks.setdefault(task, str(self.write(f"problem{len(tasks)}.py", task)))
        cheats = ci_choice({name: (task, *cheat) for task, group in groups for name, cheat in group.items()}, every=8)
        results = self.streamed([(self.write(f"{name}.py", text), tasks[task], "forward")
                                 for name, (task, _, text) in cheats.items()], "--distributions", "normal")
        for (name, (_, code, _)), result in zip(cheats.items(), results, strict=True):
            with self.subTest(name):
                self.assertNotEqual(result["verdict"], "accepted", result)
                self.assertEqual(result["reasons"][0]["code"], code, result["reasons"])


if __name__ == "__main__":
    unittest.main()
