// The process that owns a GPU's context and runs candidates' kernels there. Its host code is ours,
// but its device code is the candidate's. Started as `cupel gpu-worker N` with a socket as
// descriptor 3 and shared memory as 4. It ends when the socket closes, or is killed after a fault
// or a hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::gpu {

inline constexpr const char* kWorkerCommand = "gpu-worker";
inline constexpr int kMemoryFd = 4;

/// argv[2] is the GPU's number.
int WorkerMain(int argc, char** argv);

}  // namespace cupel::gpu
