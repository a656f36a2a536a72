# Imports PyTorch once and calls tracer.prepare(), then forks a locked process for each candidate. Forked processes run
# tracer.serve(channel) on hostile code. This process runs no hostile code. The system call filter
# os::SyscallProfile::kTracer confines it, and os::TracerLock() also confines forked processes.
#
# Arguments: the folder of tracer.py, then the other entries of sys.path. cupel sends requests as frames (os/frames.h)
# to descriptor 3. If a request fails, the answer is {"failure": text}.
#
#   request                                               answer
#   (none: after the start)                               {"ready": true}
#   {"op": "fork", "lock", "cpu_seconds", "data_bytes"}   {"pid"}. The channel comes with the request, as a descriptor.
#   {"op": "end", "pid"}                                  {"exited": status} or {"signal": number}
#
# The first frame that a forked process sends to its channel is {"locked": true}.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

Json = dict[str, Any]

CHANNEL = 3  # in this process and in forked ones


class Channel:
    """JSON in frames, over a socket."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def receive(self, size: int) -> bytes:
        return os.read(self.descriptor, size)

    def read_exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self.receive(size - len(data))
            if not part:
                return None
            data += part
        return data

    def read(self) -> Json | None:
        """The next message; None if the other side has closed the socket."""
        head = self.read_exactly(4)
        payload = head and self.read_exactly(struct.unpack("=I", head)[0])
        return None if payload is None else json.loads(payload)

    def write(self, message: Json) -> None:
        payload = json.dumps(message).encode()
        frame = memoryview(struct.pack("=I", len(payload)) + payload)
        while frame:
            frame = frame[os.write(self.descriptor, frame):]


class Control(Channel):
    """Also receives descriptors."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
        self.passed: list[int] = []

    def receive(self, size: int) -> bytes:
        data, descriptors, _, _ = socket.recv_fds(self.socket, size, 1)
        self.passed += descriptors
        return data


def warm_up() -> None:
    """Loads what tracing needs, and uses it once, so that forked processes find it initialised."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):
        import numpy  # noqa: F401
    with FakeTensorMode():
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                     torch.nn.Linear(144, 5))
        torch.softmax(layers(torch.empty(2, 3, 8, 8)), dim=1).sum()
    import tracer
    tracer.prepare()


class Program(ctypes.Structure):
    """struct sock_fprog"""
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


LIBC = ctypes.CDLL(None, use_errno=True)
INSTRUCTION_BYTES = 8  # sizeof(sock_filter)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38  # <linux/prctl.h>
SECCOMP_MODE_FILTER = 2                       # <linux/seccomp.h>


def lock(instructions: bytes) -> None:
    """Applies a system call filter to this process, for the rest of its life."""
    program = Program(len(instructions) // INSTRUCTION_BYTES, instructions)
    zero = ctypes.c_ulong(0)
    for option, first, second in ((PR_SET_NO_NEW_PRIVS, 1, zero),
                                  (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if LIBC.prctl(option, ctypes.c_ulong(first), second, zero, zero) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def run_child(request: Json, descriptor: int) -> None:
    """The life of a forked process: a candidate's code runs in serve()."""
    os.dup2(descriptor, CHANNEL)  # in place of the control socket
    os.closerange(CHANNEL + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    channel = Channel(CHANNEL)
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_seconds"], request["cpu_seconds"] + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (request["data_bytes"], request["data_bytes"]))
        lock(base64.b64decode(request["lock"]))
    except Exception as error:
        channel.write({"failure": "cannot restrict a process: %s" % error})
        return
    channel.write({"locked": True})
    import tracer
    tracer.serve(channel)


def fork(request: Json, descriptor: int) -> int:
    """Returns the number of the new process, which never returns from here."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            run_child(request, descriptor)
            status = 0
        finally:
            os._exit(status)
    return pid


def end(pid: int) -> Json:
    """Kills a forked process and reaps it. If it ended before, or has begun to end, says how it did."""
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        return {"exited": os.WEXITSTATUS(status)}
    return {"signal": os.WTERMSIG(status)}


def answer(request: Json, control: Control) -> Json:
    try:
        if request["op"] == "end":
            return end(request["pid"])
        descriptor = control.passed.pop()
        try:
            return {"pid": fork(request, descriptor)}
        finally:
            os.close(descriptor)
    except OSError as error:
        return {"failure": str(error)}


def main() -> None:
    sys.path[:] = sys.argv[1:]
    del sys.argv[1:]
    control = Control(CHANNEL)
    gc.disable()  # PyTorch's import makes many objects that all stay
    try:
        warm_up()
    except Exception as error:
        control.write({"failure": "%s: %s" % (type(error).__name__, error)})
        return
    os.dup2(1, 2)  # from /dev/null: cupel no longer reads standard error
    gc.collect()
    gc.freeze()
    gc.enable()
    control.write({"ready": True})
    while (request := control.read()) is not None:
        control.write(answer(request, control))


if __name__ == "__main__":
    main()
