// The process that owns a GPU's context and runs candidates' kernels there: its host code is ours,
// what it executes on the device is not. Started as `cupel gpu-worker N` with a socket as
// descriptor 3 and shared memory as 4; ends when the socket closes, or by force after a fault or a
// hang. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::gpu {

inline constexpr const char* kWorkerCommand = "gpu-worker";
inline constexpr int kMemoryFd = 4;

/// argv[2] is the GPU's number.
int WorkerMain(int argc, char** argv);

}  // namespace cupel::gpu
