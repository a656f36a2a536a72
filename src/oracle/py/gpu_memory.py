# Recognizes errors of PyTorch and its libraries about too little GPU memory.
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

MESSAGES = ("out of memory", "alloc_failed")  # of CUDA; of cuBLAS and cuDNN


def is_out_of_memory(error: BaseException) -> bool:
    return any(message in str(error).lower() for message in MESSAGES)
