// Kernel registration and launches. The stubs of CUDA 13's nvcc call __cudaGetKernel and
// __cudaLaunchKernel. Those of CUDA 12 and of clang call cudaLaunchKernel.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/demangle.h"
#include "ptx/parser.h"
#include "record/launch_check.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

/// What nvcc's code passes to __cudaRegisterFatBinary.
struct FatBinary {
  int magic, version;
  const void* data;
  void* file;
};

struct CallConfiguration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

std::vector<CallConfiguration>& Configurations() {
  static std::vector<CallConfiguration> stack;
  return stack;
}

plan::Dim3 ToDim(dim3 dim) { return {dim.x, dim.y, dim.z}; }

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
  bool cooperative = false, early = false;
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
        // only after it has waited. The emulator checks whether it waits early enough.
        early = attribute.val.programmaticStreamSerializationAllowed != 0;
        if (early && !kernel->waits_for_launch) {
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
                      config->dynamicSmemBytes, StreamOf(config->stream), cooperative, early);
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
                         uint64_t stream, bool cooperative, bool early) {
  const plan::Dim3 cluster = asked.value_or(RequiredCluster(*kernel));
  Session& session = CurrentSession();
  if (const auto violation =
          CheckLaunch(*kernel, {grid, block, cluster, shared, cooperative}, session.device)) {
    session.failed_launch =
        FailedLaunch{BriefName(ptx::Demangle(kernel->name)),
                     violation->message + " and the host code ignores the error"};
    return Report(static_cast<cudaError_t>(violation->error));
  }
  RawLaunch launch;
  launch.kernel = kernel;
  launch.grid = grid;
  launch.block = block;
  launch.cluster = cluster;
  launch.lone_clusters = asked && cluster.Count() == 1;
  launch.dynamic_shared = static_cast<uint32_t>(shared);
  launch.cooperative = cooperative;
  launch.early = early;
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

void** __cudaRegisterFatBinary(void* fat) {
  return CurrentSession().RegisterFatBinary(static_cast<const FatBinary*>(fat)->data);
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 0; }

void __cudaRegisterFunction(void** handle, const char* host, char* /*device*/, const char* name,
                            int /*thread_limit*/, void* /*tid*/, void* /*bid*/, void* /*block*/,
                            void* /*grid*/, int* /*size*/) {
  CurrentSession().RegisterFunction(handle, host, name);
}

void __cudaRegisterVar(void** handle, char* host, char* /*device*/, const char* name, int /*ext*/,
                       size_t size, int constant, int /*global*/) {
  CurrentSession().RegisterVariable(handle, host, name, size, constant != 0);
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
