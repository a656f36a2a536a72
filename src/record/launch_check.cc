// SPDX-License-Identifier: Apache-2.0
#include "record/launch_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/demangle.h"
#include "ptx/parser.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

std::string Text(const plan::Dim3& dim) { return fmt::format("({}, {}, {})", dim.x, dim.y, dim.z); }

struct Violation {
  cudaError_t error;
  std::string message;
};

std::optional<Violation> CheckShape(const Kernel& kernel, const plan::Dim3& grid,
                                    const plan::Dim3& block, const device::Description& d) {
  if (grid.Count() == 0 || grid.x > d.max_grid_x || grid.y > d.max_grid_y ||
      grid.z > d.max_grid_z) {
    return Violation{cudaErrorInvalidConfiguration,
                     fmt::format("grid {} (the limits are 1 to {}, {}, {})", Text(grid),
                                 d.max_grid_x, d.max_grid_y, d.max_grid_z)};
  }
  const auto max_threads = static_cast<uint64_t>(d.max_threads_per_block);
  if (block.Count() == 0 || block.Count() > max_threads || block.x > d.max_block_x ||
      block.y > d.max_block_y || block.z > d.max_block_z) {
    return Violation{
        cudaErrorInvalidConfiguration,
        fmt::format("block {} (the limits are 1 to {}, {}, {} and {} threads)", Text(block),
                    d.max_block_x, d.max_block_y, d.max_block_z, max_threads)};
  }
  if (kernel.max_threads > 0 && block.Count() > static_cast<uint64_t>(kernel.max_threads)) {
    return Violation{cudaErrorInvalidValue,
                     fmt::format("block {} of {} threads (__launch_bounds__ allows {})",
                                 Text(block), block.Count(), kernel.max_threads)};
  }
  const auto& required = kernel.required_block;
  if (required[0] > 0 &&
      plan::Dim3{static_cast<uint32_t>(required[0]), static_cast<uint32_t>(required[1]),
                 static_cast<uint32_t>(required[2])} != block) {
    return Violation{cudaErrorInvalidValue,
                     fmt::format("block {} (the kernel requires ({}, {}, {}))", Text(block),
                                 required[0], required[1], required[2])};
  }
  return std::nullopt;
}

std::optional<Violation> CheckResources(const Kernel& kernel, const plan::Dim3& block,
                                        size_t shared, const device::Description& d) {
  const auto limit = static_cast<size_t>(
      kernel.max_dynamic_shared >= 0
          ? std::max(kernel.max_dynamic_shared, d.shared_per_block - kernel.static_shared)
          : std::max(0, d.shared_per_block - kernel.static_shared));
  if (shared > limit) {
    return Violation{
        cudaErrorInvalidValue,
        fmt::format("{} bytes of dynamic and {} bytes of static shared memory (the limit is {} "
                    "dynamic bytes; cudaFuncSetAttribute can raise it to {})",
                    shared, kernel.static_shared, limit,
                    d.shared_per_block_optin - kernel.static_shared)};
  }
  const auto threads = static_cast<int>(block.Count());
  const auto occupancy = device::ComputeOccupancy(
      d, threads, kernel.registers, kernel.static_shared + static_cast<int64_t>(shared));
  if (occupancy.blocks_per_sm == 0) {
    return Violation{
        cudaErrorLaunchOutOfResources,
        fmt::format("{} threads of {} registers and {} bytes of shared memory (too many "
                    "{} for one SM)",
                    threads, kernel.registers, kernel.static_shared + shared,
                    occupancy.limited_by)};
  }
  return std::nullopt;
}

std::optional<Violation> CheckCluster(const Kernel& kernel, const plan::Dim3& grid,
                                      const plan::Dim3& cluster, const device::Description& d) {
  if (kernel.cluster[0] != 0 && cluster != RequiredCluster(kernel)) {
    return Violation{cudaErrorInvalidClusterSize,
                     fmt::format("cluster {} (the kernel requires {})", Text(cluster),
                                 Text(RequiredCluster(kernel)))};
  }
  if (cluster == plan::Dim3{}) return std::nullopt;
  const uint64_t limit = MaxClusterBlocks(kernel);
  if (d.major < 9 || cluster.Count() == 0 || cluster.Count() > limit || grid.x % cluster.x != 0 ||
      grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return Violation{cudaErrorInvalidClusterSize,
                     fmt::format("cluster {} of grid {} (the cluster must divide the grid and have "
                                 "at most {} blocks{})",
                                 Text(cluster), Text(grid), limit,
                                 limit == 8 && cluster.Count() > 8
                                     ? "; cudaFuncAttributeNonPortableClusterSizeAllowed raises "
                                       "this to 16"
                                     : "")};
  }
  return std::nullopt;
}

std::optional<Violation> CheckResidency(const Kernel& kernel, const LaunchShape& launch,
                                        const device::Description& d) {
  if (!launch.cooperative) return std::nullopt;
  const auto occupancy =
      device::ComputeOccupancy(d, static_cast<int>(launch.block.Count()), kernel.registers,
                               kernel.static_shared + static_cast<int64_t>(launch.dynamic_shared));
  const uint64_t resident =
      static_cast<uint64_t>(occupancy.blocks_per_sm) * static_cast<uint64_t>(d.sm_count);
  if (launch.grid.Count() <= resident) return std::nullopt;
  return Violation{cudaErrorCooperativeLaunchTooLarge,
                   fmt::format("{} blocks in a cooperative launch (at most {} are resident)",
                               launch.grid.Count(), resident)};
}

}  // namespace

std::optional<LaunchViolation> CheckLaunch(const Kernel& kernel, const LaunchShape& launch,
                                           const device::Description& device) {
  auto violation = CheckShape(kernel, launch.grid, launch.block, device);
  if (!violation) violation = CheckResources(kernel, launch.block, launch.dynamic_shared, device);
  if (!violation) violation = CheckCluster(kernel, launch.grid, launch.cluster, device);
  if (!violation) violation = CheckResidency(kernel, launch, device);
  if (!violation) return std::nullopt;
  return LaunchViolation{violation->error,
                         fmt::format("kernel {} was launched with {}; CUDA refuses it ({})",
                                     BriefName(ptx::Demangle(kernel.name)), violation->message,
                                     cudaGetErrorName(violation->error))};
}

}  // namespace cupel::record
