// The GPU worker as a library that Python loads (src/oracle/py/gpu_worker.py), so that PyTorch and
// the candidate's kernels use one context and one stream. Calls of C, because ctypes calls them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Enqueues an operator: Operators::Call. Writes a message of at most `size` bytes, ended by a zero
/// byte; an empty one if it was enqueued.
using CupelOperatorCall = void (*)(const char* request, char* message, size_t size);

/// Runs the worker on the GPU with this number until its socket closes. Returns a status for the
/// process if it cannot start.
int cupel_gpu_worker(int ordinal, CupelOperatorCall call);

/// Says in the worker's place why it cannot start, for example that PyTorch is missing.
void cupel_gpu_no_worker(const char* message);

/// The functions of torch.cuda.memory.CUDAPluggableAllocator.
void* cupel_gpu_allocate(intptr_t bytes, int device, void* stream);
void cupel_gpu_free(void* address, intptr_t bytes, int device, void* stream);
}
