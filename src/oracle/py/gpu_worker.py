#!/usr/bin/env python3
# A GPU worker that also executes PyTorch's operators: cupel's worker (src/gpu/worker_library.h) runs in this process
# and calls back for each operator of a plan. Operators get views of the plan's memory, and run on the worker's stream.
#   gpu_worker.py LIBRARY check|time GPU
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products are then the same in every run
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH

CALL = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)


def open_torch(library: str, purpose: str, gpu: int) -> Any:
    """Prepares PyTorch for the GPU, and returns the function for CALL."""
    import warnings

    import torch

    from operator_server import execute
    warnings.simplefilter("ignore")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "cupel_gpu_allocate", "cupel_gpu_free")
    torch.cuda.memory.change_current_allocator(allocator)
    torch.cuda.init()
    torch.cuda.set_device(gpu)
    # As for baselines. Judged results must not depend on the run.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if purpose == "check":
        torch.set_deterministic_debug_mode("warn")
        torch.utils.deterministic.fill_uninitialized_memory = False
    device = torch.device("cuda", gpu)

    def memory_at(address: int, size: int) -> Any:
        storage = torch._C._construct_storage_from_data_pointer(address, device, size)
        return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)

    def call(text: bytes, message: int, size: int) -> None:
        try:
            request = json.loads(text)
            with torch.cuda.stream(torch.cuda.ExternalStream(request["stream"], device=device)):
                execute(dict(request, in_float64=False), [memory_at(*place) for place in request["ranges"]])
        except BaseException as error:  # nothing may be raised into C
            said = (str(error).split("\n")[0] or type(error).__name__).encode()[:size - 1]
            ctypes.memmove(message, said + b"\0", len(said) + 1)

    return call


def main() -> int:
    path, purpose, gpu = sys.argv[1], sys.argv[2], int(sys.argv[3])
    library = ctypes.CDLL(path)
    try:
        call = CALL(open_torch(path, purpose, gpu))
    except Exception as error:
        library.cupel_gpu_no_worker(("PyTorch in the GPU worker: %s" % error).encode()[:1000])
        return 1
    return library.cupel_gpu_worker(gpu, call)


if __name__ == "__main__":
    sys.exit(main())
