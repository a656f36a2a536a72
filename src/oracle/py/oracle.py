#!/usr/bin/env python3
# The oracle: the only process that runs task code to make cases. It is a child of cupel and uses the
# user's PyTorch. It reduces a task (forward, backward, KernelBench problem) to cases: the positional
# arguments of the function to write, PyTorch's own result, the float64 truth, and the error scale E
# (docs/formats/case.md). Protocol: one JSON object per line on stdin and stdout; cases are files in a
# private folder. Works with PyTorch 2.4 and later; needs only PyTorch and the task's own imports.
#
# This folder has all of cupel's Python children that run a task's code with the user's PyTorch. cupel
# starts six scripts: oracle.py makes cases, baseline.py times PyTorch's own answers, filter.py measures
# the quality of tasks, import_task.py imports problems, wiring.py finds how a task's functions are called,
# and confirm.py calls kernels as PyTorch extensions. A script that replies through a pipe first hides it
# from task code, and only then imports the other modules, which import PyTorch at their heads. Modules do
# not import each other in cycles. Task code shares sys.modules with them, so their names must be unlikely
# for a task's own modules.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from case_server import Server
    from oracle_types import Json, Send


def read_requests(stream: TextIO, requests: queue.Queue[str], folders: list[str]) -> None:
    """Runs in a thread. If cupel ends, the pipe closes and this process exits, even if the task is
    running."""
    for line in stream:
        requests.put(line)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def cores_to_use() -> int:
    """The share in CUPEL_TORCH_THREADS, or all cores. PyTorch's default is half of them."""
    share, cores = os.environ.get("CUPEL_TORCH_THREADS", ""), len(os.sched_getaffinity(0))
    return min(int(share), cores) if share.isdecimal() and int(share) > 0 else cores


def serve(open_server: Callable[[Send, list[str]], Server]) -> int:
    """Hides the protocol's descriptors from task code, loads PyTorch, and answers requests.
    `open_server(send, folders)` makes the server. Only it imports the modules that need PyTorch."""
    folders = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # cupel handles Ctrl-C and closes our pipe
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    stream = os.fdopen(os.dup(0), "r", encoding="utf-8")

    def send(message: Json) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # task code prints to stderr
    sys.stdout = sys.stderr
    requests = queue.Queue()
    threading.Thread(target=read_requests, args=(stream, requests, folders), daemon=True).start()
    gc.disable()  # PyTorch's import makes many objects that all stay
    try:
        import torch
    except Exception as error:
        send({"hello": None, "failure": "%s: %s" % (type(error).__name__, error)})
        return 1
    folder = os.path.dirname(os.path.abspath(__file__))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # missing with PYTHONSAFEPATH
    server = open_server(send, folders)
    gc.freeze()
    gc.enable()
    threads = cores_to_use()
    torch.set_num_threads(threads)
    send({"hello": {"torch": torch.__version__, "threads": threads, "python": sys.executable}})
    while True:
        server.handle(json.loads(requests.get()))


def open_server(send: Send, folders: list[str]) -> Server:
    from case_server import Server
    return Server(send, folders)


if __name__ == "__main__":
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # references run eagerly: compiling one takes longer than running it
    sys.exit(serve(open_server))
