// Shared by the stand-in CUDA runtime's files. They define functions of the CUDA runtime API with C
// linkage. The executable exports these functions, and the candidate's shared object binds to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "record/refuse.h"
#include "record/session.h"

namespace cupel::record {

/// Remembers an error for cudaGetLastError, as every runtime function does.
inline cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess) CurrentSession().last_error = error;
  return error;
}

inline uint64_t Handle(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// The stream's key in Session::streams.
inline uint64_t StreamOf(cudaStream_t stream) { return Handle(stream); }

/// Checks a launch against the device and submits it. `asked`: the launch's attribute; without it,
/// the kernel has the cluster that it requires.
cudaError_t LaunchKernel(Kernel* kernel, plan::Dim3 grid, plan::Dim3 block,
                         const std::optional<plan::Dim3>& asked, void** args, size_t shared,
                         uint64_t stream, bool cooperative, bool early = false);

/// The most blocks of a cluster of `kernel`: 8, or 16 if the host code has asked for it.
inline uint64_t MaxClusterBlocks(const Kernel& kernel) {
  return kernel.nonportable_cluster ? 16 : 8;
}

/// __cluster_dims__ of the kernel; 1, 1, 1 without.
inline plan::Dim3 RequiredCluster(const Kernel& kernel) {
  const auto& [x, y, z] = kernel.cluster;
  return x == 0 ? plan::Dim3{} : plan::Dim3{x, y, z};
}

/// Of an attribute with the id cudaLaunchAttributeClusterDimension.
inline plan::Dim3 ClusterOf(const cudaLaunchAttribute& attribute) {
  const auto& dim = attribute.val.clusterDim;
  return {dim.x, dim.y, dim.z};
}

/// Fills a strided view with one element (1, 2, 4 or 8 bytes).
void FillView(uint64_t stream, const RawView& view, const void* element);

}  // namespace cupel::record
