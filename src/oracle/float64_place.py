# Where the oracle's float64 arithmetic is done: PyTorch's CPU, or for large tensors the GPU that
# kernels are judged on. Inputs and PyTorch's own float32 answer come from the CPU in any case, so that
# a seed gives the same ones everywhere; only the last bits of the truth differ. What goes wrong on the
# GPU (no memory, a reference that makes tensors of its own on the CPU) is done on the CPU instead. While
# another process of cupel measures time on the GPU, nothing is done there: gpu_lock.py.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os

import torch

import cuda_on_cpu
import gpu_lock
import gpu_memory

LARGE = 1 << 18  # elements of a call's tensors: fewer are done on the CPU before a GPU has begun
SHARE = 0.5  # of the GPU's memory that may be taken: the kernels that are judged need some, too
PATIENCE = 60.0  # seconds: for the GPU to be free


class Trouble(Exception):
    """The GPU could not do it; str() says why. The CPU can."""

    def __init__(self, error):
        super().__init__(("%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0]))[:200])
        self.lasting = not gpu_memory.was_lacking(error) and not isinstance(error, BlockingIOError)


class Cpu:
    """Everything stays where it is."""
    chunk = 1 << 18  # elements taken at a time: what stays in a cache

    def takes(self, elements):
        """Is a call of so many elements done here rather than on the CPU?"""
        return False

    def put(self, tensor_or_module):
        return tensor_or_module

    def holds(self, tensor):
        return False

    def work(self):
        """Within it, tensors are used."""
        return contextlib.nullcontext()

    def reference(self):
        """Within it, too, the task's own code runs."""
        return cuda_on_cpu.OnCpu()

    def release(self):
        """What is not in use is the judged kernels'."""


class Gpu(Cpu):
    """`lock`: the file of the GPU's lock. The GPU is touched when there is something for it to do."""
    chunk = 1 << 26

    def __init__(self, ordinal, lock):
        self.ordinal, self.use = ordinal, gpu_lock.SharedUse(lock, PATIENCE)
        self.device = None
        self.why = ""  # it cannot be used

    def takes(self, elements):
        if elements < LARGE or self.why:
            return False
        if self.device is None:
            try:
                self.open()
            except Trouble:
                raise  # it is busy
            except Exception as error:
                self.why = str(error)
                raise Trouble(error) from error
        return True

    def open(self):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else its products may vary
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch %s sees no GPU" % torch.__version__)
        device = torch.device("cuda", self.ordinal)
        with self.lock():
            torch.cuda.set_per_process_memory_fraction(SHARE, device)
            torch.ones(1, device=device).sum().item()
        self.device = device

    def put(self, tensor_or_module):
        return tensor_or_module.to(self.device)

    def holds(self, tensor):
        return tensor.is_cuda

    @contextlib.contextmanager
    def lock(self):
        try:
            self.use.__enter__()
        except BlockingIOError as error:
            raise Trouble(error) from error
        try:
            yield
        finally:
            self.use.__exit__()

    @contextlib.contextmanager
    def work(self):
        """May be nested; leaving the outermost waits for the GPU and lets others have it."""
        with self.lock():
            try:
                yield
                if self.use.depth == 1:
                    torch.cuda.synchronize(self.device)
            except RuntimeError as error:  # CUDA's, or tensors in two places
                raise Trouble(error) from error

    @contextlib.contextmanager
    def reference(self):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)  # the same inputs, the same truth
        try:
            # Tensors that the reference makes belong beside its arguments. PyTorch 2 knows how.
            with self.device if hasattr(self.device, "__enter__") else contextlib.nullcontext():
                yield
        except Trouble:
            raise
        except Exception as error:  # whatever it is: on the CPU the reference has done it
            raise Trouble(error) from error
        finally:
            torch.use_deterministic_algorithms(before)

    def release(self):
        if self.device is None:
            return
        try:
            self.use.acquire(0)
        except BlockingIOError:
            return  # another time
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            pass  # a GPU that has failed is done with
        finally:
            self.use.release()


CPU = Cpu()
place = CPU  # where large tensors are put


@contextlib.contextmanager
def at(chosen):
    """Large tensors are put there."""
    global place
    place = chosen
    try:
        yield
    finally:
        chosen.release()
        place = CPU


def place_for(elements):
    return place if place.takes(elements) else CPU


def place_of(*tensors):
    """Where arithmetic on these is done."""
    return place if any(t is not None and place.holds(t) for t in tensors) else CPU


def beside(tensor, like):
    return place_of(like).put(tensor)
