// The process that owns a GPU's context and runs candidates' kernels there. Its host code is ours,
// but its device code is the candidate's. Started as `cupel gpu-worker N` with a socket as
// descriptor 3 and shared memory as 4. It ends when the socket closes, or is killed after a fault
// or a hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"

namespace cupel::gpu {

class Operators;

inline constexpr const char* kWorkerCommand = "gpu-worker";
inline constexpr int kMemoryFd = 4;

/// argv[2] is the GPU's number.
int WorkerMain(int argc, char** argv);

/// The same for GPU `ordinal` in a process with PyTorch (worker_library.h); null without it. Does
/// not return if the worker could start.
int RunWorker(int ordinal, Operators* operators);
/// Says in the worker's place why it cannot start.
void ReportNoWorker(const Error& error);

}  // namespace cupel::gpu
