// The limits are from the CUDA programming guide, tables of compute capabilities. The error names
// are those that CUDA 13.0 (driver 580) returned on an H200. Earlier releases return
// cudaErrorInvalidConfiguration for grids and blocks. Tested by launch_check_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/launch_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emu/core/cluster.h"
#include "emu/core/kernel.h"

namespace cupel::emu {
namespace {

// The first violated rule: CUDA's error name and an explanation.
struct Refusal {
  const char* error;
  std::string why;
};
using MaybeRefusal = std::optional<Refusal>;

std::string Text(const plan::Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); }

MaybeRefusal CheckGrid(const plan::Launch& launch, const device::Description& d) {
  const plan::Dim3& g = launch.grid;
  if (g.x == 0 || g.y == 0 || g.z == 0) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the grid {} has an empty dimension", Text(g))};
  }
  if (g.x > d.max_grid_x || g.y > d.max_grid_y || g.z > d.max_grid_z) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the grid {} exceeds the limit {}x{}x{}", Text(g), d.max_grid_x,
                               d.max_grid_y, d.max_grid_z)};
  }
  return std::nullopt;
}

MaybeRefusal CheckBlock(const plan::Launch& launch, const device::Description& d) {
  const plan::Dim3& b = launch.block;
  if (b.x == 0 || b.y == 0 || b.z == 0) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the block {} has an empty dimension", Text(b))};
  }
  if (b.x > d.max_block_x || b.y > d.max_block_y || b.z > d.max_block_z) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the block {} exceeds the limit {}x{}x{}", Text(b), d.max_block_x,
                               d.max_block_y, d.max_block_z)};
  }
  const uint64_t threads = b.Count();
  if (threads > static_cast<uint64_t>(d.max_threads_per_block)) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the block {} has {} threads, more than the limit of {}", Text(b),
                               threads, d.max_threads_per_block)};
  }
  return std::nullopt;
}

uint64_t Product(const std::vector<int>& dims) {
  uint64_t product = 1;
  for (int dim : dims) product *= static_cast<uint64_t>(std::max(dim, 1));
  return product;
}

MaybeRefusal CheckDirectives(const plan::Launch& launch, const KernelLimits& kernel) {
  if (kernel.function == nullptr) return std::nullopt;
  const plan::Dim3& b = launch.block;
  const std::vector<int>& exact = kernel.function->req_ntid;
  if (!exact.empty()) {
    const uint32_t want[3] = {static_cast<uint32_t>(exact[0]),
                              exact.size() > 1 ? static_cast<uint32_t>(exact[1]) : 1u,
                              exact.size() > 2 ? static_cast<uint32_t>(exact[2]) : 1u};
    if (b.x != want[0] || b.y != want[1] || b.z != want[2]) {
      return Refusal{"cudaErrorInvalidValue",
                     fmt::format("the block is {}, but the kernel requires {}x{}x{}", Text(b),
                                 want[0], want[1], want[2])};
    }
  }
  const std::vector<int>& most = kernel.function->max_ntid;
  if (!most.empty() && b.Count() > Product(most)) {
    return Refusal{"cudaErrorInvalidValue",
                   fmt::format("the block has {} threads, but the kernel's launch bounds allow {}",
                               b.Count(), Product(most))};
  }
  return std::nullopt;
}

MaybeRefusal CheckResources(const plan::Launch& launch, const KernelLimits& kernel,
                            const device::Description& d) {
  const uint64_t shared = kernel.static_shared + launch.dynamic_shared;
  const auto shared_limit = static_cast<uint64_t>(d.shared_per_block_optin);
  if (shared > shared_limit) {
    return Refusal{
        "cudaErrorInvalidValue",
        fmt::format("{} bytes of shared memory ({} static, {} dynamic) exceed the limit of "
                    "{} bytes per block",
                    shared, kernel.static_shared, launch.dynamic_shared, shared_limit)};
  }
  // Only registers can still keep a legal block from fitting on an SM.
  const int threads = static_cast<int>(launch.block.Count());
  if (kernel.registers > 0 &&
      device::ComputeOccupancy(d, threads, kernel.registers, 0).blocks_per_sm == 0) {
    return Refusal{
        "cudaErrorLaunchOutOfResources",
        fmt::format("{} threads with {} registers each exceed the {} registers of a block", threads,
                    kernel.registers, d.registers_per_block)};
  }
  return std::nullopt;
}

/// Blocks that the device holds at once.
uint64_t CapacityOf(const plan::Launch& launch, const KernelLimits& kernel,
                    const device::Description& d, int* of_sm) {
  const auto shared = static_cast<int64_t>(kernel.static_shared + launch.dynamic_shared);
  const device::Occupancy occupancy =
      device::ComputeOccupancy(d, static_cast<int>(launch.block.Count()), kernel.registers, shared);
  *of_sm = occupancy.blocks_per_sm;
  return static_cast<uint64_t>(occupancy.blocks_per_sm) * static_cast<uint64_t>(d.sm_count);
}

MaybeRefusal CheckCluster(const plan::Launch& launch, const KernelLimits& kernel,
                          const device::Description& d) {
  const bool required = kernel.cluster.Count() != 0;
  const plan::Dim3& c = required ? kernel.cluster : launch.cluster;
  if (launch.cluster != plan::Dim3{} && launch.cluster != c) {
    return Refusal{"cudaErrorInvalidClusterSize",
                   fmt::format("the launch has clusters of {} blocks, but the kernel requires {}",
                               Text(launch.cluster), Text(c))};
  }
  if (c == plan::Dim3{}) return std::nullopt;
  if (c.x == 0 || c.y == 0 || c.z == 0 || c.Count() > kLargestCluster || d.major < 9) {
    return Refusal{"cudaErrorInvalidClusterSize",
                   fmt::format("clusters of {} blocks are not possible on {} (limit {})", Text(c),
                               d.full_name, d.major < 9 ? 1 : kLargestCluster)};
  }
  const plan::Dim3& g = launch.grid;
  if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0) {
    return Refusal{
        "cudaErrorInvalidClusterSize",
        fmt::format("the grid {} is not a multiple of the cluster {}", Text(g), Text(c))};
  }
  int of_sm = 0;
  const uint64_t capacity = CapacityOf(launch, kernel, d, &of_sm);
  if (c.Count() <= capacity) return std::nullopt;
  return Refusal{"cudaErrorInvalidClusterSize",
                 fmt::format("clusters of {} blocks exceed the {} blocks that {} holds at once",
                             Text(c), capacity, d.full_name)};
}

MaybeRefusal CheckCooperative(const plan::Launch& launch, const KernelLimits& kernel,
                              const device::Description& d) {
  if (!launch.cooperative) return std::nullopt;
  int of_sm = 0;
  const uint64_t capacity = CapacityOf(launch, kernel, d, &of_sm);
  if (launch.grid.Count() <= capacity) return std::nullopt;
  return Refusal{"cudaErrorCooperativeLaunchTooLarge",
                 fmt::format("a cooperative grid of {} blocks exceeds the {} that {} holds at once "
                             "({} on each of {} SMs)",
                             launch.grid.Count(), capacity, d.full_name, of_sm, d.sm_count)};
}

MaybeRefusal CheckParameters(const plan::Launch& launch, const KernelLimits& kernel) {
  if (launch.parameters.size() == kernel.param_bytes) return std::nullopt;
  return Refusal{"cudaErrorInvalidValue",
                 fmt::format("{} bytes of parameters were passed, the kernel takes {}",
                             launch.parameters.size(), kernel.param_bytes)};
}

MaybeRefusal FirstRefusal(const plan::Launch& launch, const KernelLimits& kernel,
                          const device::Description& device) {
  // The order matters: later checks rely on earlier ones.
  if (auto r = CheckGrid(launch, device)) return r;
  if (auto r = CheckBlock(launch, device)) return r;
  if (auto r = CheckDirectives(launch, kernel)) return r;
  if (auto r = CheckResources(launch, kernel, device)) return r;
  if (auto r = CheckCluster(launch, kernel, device)) return r;
  if (auto r = CheckCooperative(launch, kernel, device)) return r;
  return CheckParameters(launch, kernel);
}

}  // namespace

KernelLimits LimitsOf(const Kernel& kernel, const ptx::Module& module,
                      const std::vector<build::KernelResources>& resources) {
  KernelLimits limits;
  limits.demangled = kernel.demangled;
  limits.static_shared = kernel.static_shared_bytes;
  limits.param_bytes = kernel.param_bytes;
  limits.cluster = kernel.cluster;
  limits.function = module.Find(kernel.name);
  for (const build::KernelResources& r : resources) {
    if (r.kernel != kernel.name) continue;
    limits.registers = r.registers;
    // ptxas says so if it ignores setmaxnreg, as where it does not know the registers at the
    // launch.
    const bool is_ignored = std::ranges::any_of(r.remarks, [](const std::string& remark) {
      return remark.find("setmaxnreg") != std::string::npos;
    });
    constexpr int kUnit = 8;  // a warp gets registers in units of this many for each thread
    limits.movable_registers =
        is_ignored ? 0
                   : static_cast<uint32_t>(std::max(r.registers, 0) + kUnit - 1) / kUnit * kUnit;
    limits.static_shared = static_cast<uint64_t>(std::max(r.static_shared, 0));
  }
  return limits;
}

std::optional<records::Finding> CheckLaunch(const plan::Launch& launch, const KernelLimits& kernel,
                                            const device::Description& device) {
  const MaybeRefusal refusal = FirstRefusal(launch, kernel, device);
  if (!refusal) return std::nullopt;
  records::Finding finding;
  finding.code = "illegal_launch";
  finding.kernel = kernel.demangled;
  finding.message = fmt::format("{}: {}", refusal->error, refusal->why);
  return finding;
}

}  // namespace cupel::emu
