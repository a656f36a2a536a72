# Decides where the oracle's float64 arithmetic runs: on the CPU, or for large tensors on the GPU that
# judges kernels. Inputs and PyTorch's own float32 results always come from the CPU, so that a seed gives
# the same ones on every machine; only the last bits of the truth differ. If the GPU fails (no memory, a
# reference that needs NumPy), the CPU computes instead. While another process of cupel
# measures time on the GPU, nothing runs there: gpu_lock.py.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

import cuda_on_cpu
import gpu_lock
import gpu_memory
import on_gpu

LARGE = 1 << 18  # elements of a call's tensors: the CPU finishes fewer before a GPU has started
SHARE = 0.5  # of the GPU's memory that may be used: the judged kernels need some, too
PATIENCE = 60.0  # seconds to wait until the GPU is free


class Trouble(Exception):
    """The GPU failed, and the CPU should compute. str() says why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(("%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0]))[:200])
        self.lasting = not gpu_memory.is_out_of_memory(error) and not isinstance(error, BlockingIOError)


class Cpu:
    """Computes on the CPU: nothing is moved."""
    chunk = 1 << 18  # elements processed at a time, to fit into a cache

    def takes(self, elements: int) -> bool:
        """True if a call of so many elements runs here and not on the CPU."""
        return False

    def put(self, tensor_or_module: Any) -> Any:
        return tensor_or_module

    def holds(self, tensor: torch.Tensor) -> bool:
        return False

    def work(self) -> contextlib.AbstractContextManager:
        """The context in which tensors of this place are used."""
        return contextlib.nullcontext()

    def reference(self) -> contextlib.AbstractContextManager:
        """The context, in addition to work(), in which the task's own code runs."""
        return cuda_on_cpu.OnCpu()

    def release(self) -> None:
        """Frees unused memory for the judged kernels."""

    def is_broken(self) -> bool:
        """True if nothing works here until the process ends."""
        return False


class Gpu(Cpu):
    """Computes on the GPU. `lock`: the file of the GPU's lock. Opens the GPU at the first use."""
    chunk = 1 << 26

    def __init__(self, ordinal: int, lock: str) -> None:
        self.ordinal, self.use = ordinal, gpu_lock.SharedUse(lock, PATIENCE)
        self.device = None
        self.why = ""  # why the GPU cannot be used

    def takes(self, elements: int) -> bool:
        if elements < LARGE or self.why:
            return False
        if self.device is None:
            try:
                self.open()
            except Trouble:
                raise  # the GPU is busy
            except Exception as error:
                self.why = str(error)
                raise Trouble(error) from error
        return True

    def open(self) -> None:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch %s finds no GPU" % torch.__version__)
        device = torch.device("cuda", self.ordinal)
        with self.lock(), torch.cuda.device(device):
            torch.cuda.set_per_process_memory_fraction(SHARE, device)
            torch.ones(1, device=device).sum().item()
        self.device = device

    def put(self, tensor_or_module: Any) -> Any:
        return tensor_or_module.to(self.device)

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        try:
            self.use.__enter__()
        except BlockingIOError as error:
            raise Trouble(error) from error
        try:
            yield
        finally:
            self.use.__exit__()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """May be nested. Leaving the outermost waits for the GPU and releases its lock."""
        with self.lock():
            try:
                with torch.cuda.device(self.device):  # some operators work on the current one only
                    yield
                if self.use.depth == 1:
                    torch.cuda.synchronize(self.device)
            except RuntimeError as error:  # from CUDA, or tensors on two devices
                raise Trouble(error) from error

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        before = torch.get_deterministic_debug_mode()
        # The same inputs, the same truth. use_deterministic_algorithms() imports PyTorch's compiler: seconds.
        torch.set_deterministic_debug_mode("warn")
        try:
            # Put tensors that the reference makes on the device of its arguments.
            with self.device, on_gpu.OnGpu(self.device):
                yield
        except Trouble:
            raise
        except Exception as error:  # any error: the reference has already worked on the CPU
            raise Trouble(error) from error
        finally:
            torch.set_deterministic_debug_mode(before)

    def release(self) -> None:
        if self.device is None:
            return
        try:
            self.use.acquire(0)
        except BlockingIOError:
            return  # busy: release at a later call
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            pass  # the GPU has failed and is not used again
        finally:
            self.use.release()

    def is_broken(self) -> bool:
        if self.device is None:
            return False
        try:
            torch.cuda.synchronize(self.device)
            return False
        except RuntimeError:
            return True


CPU = Cpu()
place = CPU  # the place of large tensors


@contextlib.contextmanager
def at(chosen: Cpu) -> Iterator[None]:
    """The context in which `chosen` is the place of large tensors."""
    global place
    place = chosen
    try:
        yield
    finally:
        chosen.release()
        place = CPU


def place_for(elements: int) -> Cpu:
    return place if place.takes(elements) else CPU


def place_of(*tensors: torch.Tensor | None) -> Cpu:
    """The place that computes with these tensors."""
    return place if any(t is not None and place.holds(t) for t in tensors) else CPU


def to_place_of(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return place_of(like).put(tensor)
