# What PyTorch and its libraries say when a GPU's memory does not suffice.
# SPDX-License-Identifier: Apache-2.0

SAYINGS = ("out of memory", "alloc_failed")  # CUDA's; cuBLAS's and cuDNN's


def was_lacking(error):
    return any(saying in str(error).lower() for saying in SAYINGS)
