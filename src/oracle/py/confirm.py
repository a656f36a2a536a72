#!/usr/bin/env python3
# The children of `cupel confirm`: builds a kernel as a real PyTorch extension, and calls and times it
# from Python as published harnesses do. Times PyTorch in the same ways. A candidate's numbers from here
# are for comparison and never evidence, because the candidate runs in this process.
# Usage: confirm.py MODE REQUEST.json RESULT.json
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import mmap
import os
import statistics
import sys
import time
import traceback
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draw_base import Draw
    from oracle_types import Json

torch = None  # imported by main()

WARMUP = 25  # calls, and milliseconds of do_bench
MOST_SECONDS = 30  # for one way of timing


def last_line(error: BaseException) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip()[-1000:]


# --- ways of timing -------------------------------------------------------------------------------


def summary(times: Sequence[float], scale: float) -> Json:
    """Microseconds from a list of times."""
    times = sorted(t * scale for t in times)
    quarters = (statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3)
    return {"mean_us": statistics.fmean(times), "median_us": statistics.median(times),
            "iqr_us": quarters[2] - quarters[0], "min_us": times[0], "samples": len(times)}


def by_events(call: Callable[[], Any], repeats: int) -> Json:
    """CUDA events around each Python call. The GPU is idle before each call."""
    for _ in range(WARMUP):
        call()
        torch.cuda.synchronize()
    times, started = [], time.monotonic()
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
        if time.monotonic() - started > MOST_SECONDS:
            break
    return summary(times, 1e3)


def by_benchmark(call: Callable[[], Any], repeats: int) -> Json:
    from torch.utils import benchmark
    found = benchmark.Timer(stmt="call()", globals={"call": call}).blocked_autorange(min_run_time=1)
    return summary(found.times, 1e6)


def by_do_bench(call: Callable[[], Any], repeats: int) -> Json:
    from triton.testing import do_bench
    return summary(do_bench(call, warmup=WARMUP, rep=500, return_mode="all"), 1e3)


WAYS = {"events": by_events, "benchmark": by_benchmark, "do_bench": by_do_bench}


def timed(call: Callable[[], Any], request: Json) -> dict[str, Json]:
    """{way: summary or failure}. `call` must have been called once before."""
    found = {}
    for way in request["ways"]:
        try:
            found[way] = WAYS[way](call, request["repeats"])
        except ImportError as error:
            found[way] = {"failure": "not installed: %s" % last_line(error)}
        except Exception as error:
            found[way] = {"failure": last_line(error)}
    return found


# --- arguments and results, through files ---------------------------------------------------------


def read_value(node: Json, data: mmap.mmap | bytes, device: torch.device) -> Any:
    kind = node["kind"]
    if kind == "none":
        return None
    if kind in ("bool", "string"):
        return node["value"]
    if kind == "int":
        return int(node["value"])
    if kind == "float":
        return float.fromhex(node["value"])
    if kind == "tuple":
        return tuple(read_value(item, data, device) for item in node["items"])
    dtype = getattr(torch, node["dtype"])
    size = torch.empty((), dtype=dtype).element_size()
    count = node["bytes"] // size
    flat = torch.empty(0, dtype=dtype)
    if count:
        flat = torch.frombuffer(data, dtype=dtype, count=count, offset=node["at"]).clone()
    return flat.as_strided(node["shape"], node["strides"], node["offset"]).to(device)


def read_arguments(path: str, device: torch.device) -> list[Any]:
    with open(path + ".json", encoding="utf-8") as file:
        nodes = json.load(file)
    with open(path + ".bin", "r+b" if os.access(path + ".bin", os.W_OK) else "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ | mmap.PROT_WRITE,
                         flags=mmap.MAP_PRIVATE) if size else b""
        return [read_value(node, data, device) for node in nodes]


def write_results(result: Any, folder: str, prefix: str) -> Json:
    """Writes each result, contiguous, to its own file. cupel checks the descriptions returned here."""
    reply = []
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for i, value in enumerate(results[:32]):
        if not isinstance(value, torch.Tensor):
            reply.append(None)
            continue
        flat = value.detach().contiguous().cpu().reshape(-1)
        name = "%s.%d" % (prefix, i)
        with open(os.path.join(folder, name), "wb") as file:
            if flat.numel():
                bytes_ = flat.numel() * flat.element_size()
                file.write((ctypes.c_char * bytes_).from_address(flat.data_ptr()))
        reply.append({"file": name, "dtype": str(value.dtype).replace("torch.", ""),
                     "shape": list(value.shape)})
    return {"is_tuple": isinstance(result, (list, tuple)), "results": reply}


# --- modes ----------------------------------------------------------------------------------------


def look(request: Json) -> Json:
    """The paths that a sandbox must allow for this Python, its PyTorch and the compilers."""
    import shutil
    import site
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(torch.__file__),
             os.path.dirname(os.path.realpath(sys.executable))]
    paths += [p for p in sys.path if p] + list(site.getsitepackages())
    cuda = None
    with contextlib.suppress(Exception):
        from torch.utils import cpp_extension
        cuda = cpp_extension.CUDA_HOME
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        paths.append(os.path.dirname(triton.origin))
    return {"paths": paths, "programs": [p for p in map(shutil.which, ("ninja", "c++", "g++")) if p],
            "cuda_home": cuda, "torch": torch.__version__, "torch_cuda": torch.version.cuda}


def try_cuda(request: Json) -> Json:
    """Checks whether CUDA starts in this process."""
    device = torch.device("cuda", request["ordinal"])
    value = (torch.ones(4, device=device) + 1).sum().item()
    return {"works": value == 8, "gpu": torch.cuda.get_device_name(device)}


class BuildFailed(Exception):
    """str() is the compilers' error output."""


def error_lines(text: str) -> str:
    """The lines of a build's output that mention errors, or its last lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and not line.startswith("FAILED")
              and "Error building extension" not in line]
    return "\n".join(errors[:20] or lines[-20:])


def build(request: Json) -> Json:
    from torch.utils import cpp_extension
    if cpp_extension.CUDA_HOME is None:  # a PyTorch without CUDA ignores the variable
        cpp_extension.CUDA_HOME = os.environ.get("CUDA_HOME")
    started = time.monotonic()
    try:
        cpp_extension.load(name=request["name"], sources=[request["source"]],
                           build_directory=request["folder"], extra_cflags=["-O3"],
                           extra_cuda_cflags=request["flags"],
                           extra_include_paths=request["include_roots"], with_cuda=True)
    except RuntimeError as error:
        raise BuildFailed(error_lines(str(error))) from None
    return {"seconds": time.monotonic() - started}


def load_extension(path: str, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def candidate(request: Json) -> Json:
    device = chosen(request)
    function = getattr(load_extension(request["module"], request["name"]), request["function"])
    args = read_arguments(request["arguments"], device)

    def call() -> Any:
        return function(*args)

    with torch.no_grad():
        result = call()
        synchronize(device)
        reply = {"first": write_results(result, request["folder"], "first")}
        del result
        reply["ways"] = timed(call, request)
        reply["last"] = write_results(call(), request["folder"], "last")
    synchronize(device)
    return reply


def chosen(request: Json) -> torch.device:
    device = torch.device(request["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return device


def on_device(value: Any, device: torch.device) -> Any:
    from tensor_values import tree_map
    return tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, value)


def reference_call(draw: Draw, device: torch.device, kind: str) -> Callable[[], Any]:
    """A function of no arguments that does PyTorch's work for this draw."""
    from draw_forward import ForwardDraw
    from draw_problem import ProblemDraw
    compiled = (lambda f: torch.compile(f)) if kind == "compile" else (lambda f: f)
    if isinstance(draw, ProblemDraw):
        model = compiled(draw.model.to(device))
        inputs = on_device(draw.inputs, device)
        return lambda: model(*inputs)
    if isinstance(draw, ForwardDraw):
        function, args = compiled(draw.function), on_device(draw.args, device)
        return lambda: function(*args)
    inputs = list(on_device(draw.inputs, device))
    grads = [g if g is None else g.to(device) for g in draw.grads]
    wanted = sorted({i for i in draw.wanted if i is not None})
    for i in wanted:
        inputs[i] = inputs[i].detach().requires_grad_(True)
    with torch.enable_grad():
        result = compiled(draw.function)(*inputs)
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
    return lambda: torch.autograd.grad([o for o, _ in pairs], [inputs[i] for i in wanted],
                                       [g for _, g in pairs], retain_graph=True, allow_unused=True)


def reference(request: Json) -> Json:
    """Times PyTorch, eager and compiled. Task code runs here, but no candidate."""
    device = chosen(request)
    folder = os.path.dirname(request["oracle"])
    if folder not in sys.path:
        sys.path.insert(0, folder)  # missing with PYTHONSAFEPATH
    from draw_backward import BackwardDraw
    from loaded_task import Task
    task = Task(request["task"])
    draw = task.draw(int(request["seed"]), request["init"], request["inputs"])
    reply = {}
    for kind in request["kinds"]:
        try:
            no_grad = not isinstance(draw, BackwardDraw)
            with torch.no_grad() if no_grad else contextlib.nullcontext():
                call = reference_call(draw, device, kind)
                for _ in range(3):
                    call()
                synchronize(device)
                reply[kind] = timed(call, request)
        except Exception as error:
            reply[kind] = {"failure": last_line(error)}
    return reply


MODES = {"look": look, "try": try_cuda, "build": build, "candidate": candidate, "reference": reference}


def main() -> int:
    global torch
    mode, request_path, result_path = sys.argv[1:4]
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    try:
        import torch as imported
        torch = imported
        reply = MODES[mode](request)
    except Exception as error:
        reply = {"failure": last_line(error)}
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(reply, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
