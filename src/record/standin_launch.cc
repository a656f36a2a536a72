// Kernel registration and launches. The stubs of CUDA 13's nvcc call __cudaGetKernel and
// __cudaLaunchKernel. Those of CUDA 12 and of clang call cudaLaunchKernel.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/demangle.h"
#include "ptx/parser.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

std::vector<CallConfiguration>& Configurations() {
  static std::vector<CallConfiguration> stack;
  return stack;
}

std::string Text(const plan::Dim3& dim) { return fmt::format("({}, {}, {})", dim.x, dim.y, dim.z); }

plan::Dim3 ToDim(dim3 dim) { return {dim.x, dim.y, dim.z}; }

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

std::optional<Violation> CheckLaunch(const Kernel& kernel, const plan::Dim3& grid,
                                     const plan::Dim3& block, const plan::Dim3& cluster,
                                     size_t shared, bool cooperative,
                                     const device::Description& d) {
  if (auto violation = CheckShape(kernel, grid, block, d)) return violation;
  if (auto violation = CheckResources(kernel, block, shared, d)) return violation;
  if (auto violation = CheckCluster(kernel, grid, cluster, d)) return violation;
  if (!cooperative) return std::nullopt;
  const auto occupancy =
      device::ComputeOccupancy(d, static_cast<int>(block.Count()), kernel.registers,
                               kernel.static_shared + static_cast<int64_t>(shared));
  const uint64_t resident =
      static_cast<uint64_t>(occupancy.blocks_per_sm) * static_cast<uint64_t>(d.sm_count);
  if (grid.Count() <= resident) return std::nullopt;
  return Violation{cudaErrorCooperativeLaunchTooLarge,
                   fmt::format("{} blocks in a cooperative launch (at most {} are resident)",
                               grid.Count(), resident)};
}

// Not in the headers of every CUDA 12.
constexpr int kPreferredClusterDimension = 11, kPreferredSharedMemoryCarveout = 14,
              kNvlinkUtilCentricScheduling = 16;

std::string NameOfAttribute(cudaLaunchAttributeID id) {
  switch (static_cast<int>(id)) {
    case 7:
      return "cudaLaunchAttributeProgrammaticEvent";
    case 12:
      return "cudaLaunchAttributeLaunchCompletionEvent";
    case 13:
      return "cudaLaunchAttributeDeviceUpdatableKernelNode";
    default:
      return fmt::format("number {}", static_cast<int>(id));
  }
}

cudaError_t LaunchWithConfig(const cudaLaunchConfig_t* config, const void* function, void** args) {
  Kernel* kernel = CurrentSession().FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  std::optional<plan::Dim3> cluster;
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (static_cast<int>(attribute.id)) {
      case cudaLaunchAttributeCooperative:
        cooperative = attribute.val.cooperative != 0;
        break;
      case cudaLaunchAttributeClusterDimension:
        cluster = ClusterOf(attribute);
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        // The kernel may start before the previous launch has ended. It sees that launch's results
        // only after it has waited. Whether it waits early enough is not checked here.
        if (attribute.val.programmaticStreamSerializationAllowed != 0 &&
            !kernel->waits_for_launch) {
          Refuse("unordered_work",
                 fmt::format("{} may start before the previous launch has ended "
                             "(cudaLaunchAttributeProgrammaticStreamSerialization), but never "
                             "waits for it: cudaGridDependencySynchronize is missing",
                             BriefName(ptx::Demangle(kernel->name))),
                 "cudaLaunchKernelExC");
        }
        break;
      // Only hints, or limits of several processes and GPUs.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributeMemSyncDomainMap:
      case kPreferredClusterDimension:
      case kPreferredSharedMemoryCarveout:
      case kNvlinkUtilCentricScheduling:
        break;
      default:
        RefuseUnsupported(
            "unsupported_api",
            fmt::format("the launch attribute {} is not supported", NameOfAttribute(attribute.id)),
            "cudaLaunchKernelExC");
    }
  }
  return LaunchKernel(kernel, ToDim(config->gridDim), ToDim(config->blockDim), cluster, args,
                      config->dynamicSmemBytes, StreamOf(config->stream), cooperative);
}

cudaError_t LaunchPlain(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                        cudaStream_t stream, bool cooperative) {
  Session& session = CurrentSession();
  Kernel* kernel = session.FindKernel(function);
  if (kernel == nullptr) {
    session.failed_launch = FailedLaunch{
        "unknown",
        "host code launched a function that is not a kernel of this file, and ignored the "
        "error"};
    return Report(cudaErrorInvalidDeviceFunction);
  }
  return LaunchKernel(kernel, ToDim(grid), ToDim(block), std::nullopt, args, shared,
                      StreamOf(stream), cooperative);
}

}  // namespace

cudaError_t LaunchKernel(Kernel* kernel, plan::Dim3 grid, plan::Dim3 block,
                         const std::optional<plan::Dim3>& asked, void** args, size_t shared,
                         uint64_t stream, bool cooperative) {
  const plan::Dim3 cluster = asked.value_or(RequiredCluster(*kernel));
  Session& session = CurrentSession();
  if (const auto violation =
          CheckLaunch(*kernel, grid, block, cluster, shared, cooperative, session.device)) {
    const std::string name = BriefName(ptx::Demangle(kernel->name));
    session.failed_launch = FailedLaunch{
        name, fmt::format("kernel {} was launched with {}; CUDA refuses it ({}) and the "
                          "host code ignores the error",
                          name, violation->message, cudaGetErrorName(violation->error))};
    return Report(violation->error);
  }
  RawLaunch launch;
  launch.kernel = kernel;
  launch.grid = grid;
  launch.block = block;
  launch.cluster = cluster;
  launch.lone_clusters = asked && cluster.Count() == 1;
  launch.dynamic_shared = static_cast<uint32_t>(shared);
  launch.cooperative = cooperative;
  launch.parameters.resize(kernel->param_bytes);
  for (size_t i = 0; i < kernel->params.size(); ++i) {
    std::memcpy(launch.parameters.data() + kernel->params[i].offset, args[i],
                kernel->params[i].bytes);
  }
  session.Submit(stream, std::move(launch));
  return cudaSuccess;
}

}  // namespace cupel::record

using namespace cupel::record;

// nvcc requires these names.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

void** __cudaRegisterFatBinary(void* /*fat*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 0; }

void __cudaRegisterFunction(void** /*handle*/, const char* host, char* /*device*/, const char* name,
                            int /*thread_limit*/, void* /*tid*/, void* /*bid*/, void* /*block*/,
                            void* /*grid*/, int* /*size*/) {
  CurrentSession().RegisterFunction(host, name);
}

void __cudaRegisterVar(void** /*handle*/, char* host, char* /*device*/, const char* name,
                       int /*ext*/, size_t size, int constant, int /*global*/) {
  CurrentSession().RegisterVariable(host, name, size, constant != 0);
}

void __cudaRegisterManagedVar(void** /*handle*/, void** /*host*/, char* /*device*/,
                              const char* name, int /*ext*/, size_t /*size*/, int /*constant*/,
                              int /*global*/) {
  RefuseUnsupported("unsupported_api", "__managed__ variables are not supported", name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  Configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& stack = Configurations();
  if (stack.empty()) return Report(cudaErrorMissingConfiguration);
  const CallConfiguration& top = stack.back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  stack.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return cudaGetKernel(kernel, function);
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  Kernel* found = CurrentSession().FindKernel(function);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return found != nullptr ? cudaSuccess : Report(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream) {
  return LaunchPlain(kernel, grid, block, args, shared, stream, false);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args,
                             size_t shared, cudaStream_t stream) {
  return LaunchPlain(function, grid, block, args, shared, stream, false);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t stream) {
  return LaunchPlain(function, grid, block, args, shared, stream, true);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** args) {
  return LaunchWithConfig(config, function, args);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t /*stream*/, cudaHostFn_t /*fn*/, void* /*data*/) {
  RefuseUnsupported("unsupported_api",
                    "work that runs on the host in stream order is not supported",
                    "cudaLaunchHostFunc");
}

cudaError_t cudaStreamAddCallback(cudaStream_t /*stream*/, cudaStreamCallback_t /*callback*/,
                                  void* /*data*/, unsigned /*flags*/) {
  RefuseUnsupported("unsupported_api",
                    "work that runs on the host in stream order is not supported",
                    "cudaStreamAddCallback");
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
