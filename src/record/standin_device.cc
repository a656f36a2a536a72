// Device queries, function attributes, occupancy and errors.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "record/standin.h"

namespace cupel::record {
namespace {

constexpr int kWarp = 32;
constexpr int kConstantBytes = 64 << 10;
constexpr int kPitch = 2147483647;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

// The errors that the stand-in runtime returns, and those that host code commonly checks for.
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "invalid cluster size"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* Lookup(cudaError_t error) {
  const auto* const it = std::find_if(std::begin(kErrors), std::end(kErrors),
                                      [&](const ErrorText& item) { return item.error == error; });
  return it == std::end(kErrors) ? nullptr : it;
}

void FillLimits(cudaDeviceProp& p, const device::Description& d) {
  p.totalGlobalMem = d.global_memory_bytes;
  p.sharedMemPerBlock = static_cast<size_t>(d.shared_per_block);
  p.regsPerBlock = d.registers_per_block;
  p.warpSize = kWarp;
  p.memPitch = kPitch;
  p.maxThreadsPerBlock = d.max_threads_per_block;
  p.maxThreadsDim[0] = static_cast<int>(d.max_block_x);
  p.maxThreadsDim[1] = static_cast<int>(d.max_block_y);
  p.maxThreadsDim[2] = static_cast<int>(d.max_block_z);
  p.maxGridSize[0] = static_cast<int>(d.max_grid_x);
  p.maxGridSize[1] = static_cast<int>(d.max_grid_y);
  p.maxGridSize[2] = static_cast<int>(d.max_grid_z);
  p.totalConstMem = kConstantBytes;
  p.maxThreadsPerMultiProcessor = d.max_threads_per_sm;
  p.sharedMemPerMultiprocessor = static_cast<size_t>(d.shared_per_sm);
  p.regsPerMultiprocessor = d.registers_per_sm;
  p.sharedMemPerBlockOptin = static_cast<size_t>(d.shared_per_block_optin);
  p.maxBlocksPerMultiProcessor = d.max_blocks_per_sm;
  p.reservedSharedMemPerBlock = static_cast<size_t>(d.shared_reserved_per_block);
}

cudaDeviceProp Properties(const device::Description& d) {
  cudaDeviceProp p;
  std::memset(&p, 0, sizeof p);
  std::strncpy(p.name, d.full_name.c_str(), sizeof p.name - 1);
  FillLimits(p, d);
  p.major = d.major;
  p.minor = d.minor;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.surfaceAlignment = 512;
  p.multiProcessorCount = d.sm_count;
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = d.memory_bus_bits;
  p.l2CacheSize = static_cast<int>(d.l2_bytes);
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = 1;
  p.localL1CacheSupported = 1;
  p.managedMemory = 1;
  p.computePreemptionSupported = 1;
  p.cooperativeLaunch = 1;
  p.memoryPoolsSupported = 1;
  p.clusterLaunch = d.major >= 9 ? 1 : 0;
  return p;
}

/// Reads an attribute from the description. False if cupel has no value for it.
bool Attribute(cudaDeviceAttr attribute, const device::Description& d, int* value) {
  const cudaDeviceProp p = Properties(d);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      return true;
    case cudaDevAttrMaxBlockDimX:
      *value = p.maxThreadsDim[0];
      return true;
    case cudaDevAttrMaxBlockDimY:
      *value = p.maxThreadsDim[1];
      return true;
    case cudaDevAttrMaxBlockDimZ:
      *value = p.maxThreadsDim[2];
      return true;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      return true;
    case cudaDevAttrMaxGridDimY:
      *value = p.maxGridSize[1];
      return true;
    case cudaDevAttrMaxGridDimZ:
      *value = p.maxGridSize[2];
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = d.shared_per_block;
      return true;
    case cudaDevAttrTotalConstantMemory:
      *value = kConstantBytes;
      return true;
    case cudaDevAttrWarpSize:
      *value = kWarp;
      return true;
    case cudaDevAttrMaxPitch:
      *value = kPitch;
      return true;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = d.registers_per_block;
      return true;
    case cudaDevAttrClockRate:
      *value = d.clock_khz;
      return true;
    case cudaDevAttrTextureAlignment:
      *value = 512;
      return true;
    case cudaDevAttrMultiProcessorCount:
      *value = d.sm_count;
      return true;
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
      *value = 0;
      return true;
    case cudaDevAttrMemoryClockRate:
      *value = d.memory_clock_khz;
      return true;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = d.memory_bus_bits;
      return true;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = d.max_threads_per_sm;
      return true;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      return true;
    case cudaDevAttrComputeCapabilityMajor:
      *value = d.major;
      return true;
    case cudaDevAttrComputeCapabilityMinor:
      *value = d.minor;
      return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = d.shared_per_sm;
      return true;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = d.registers_per_sm;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = d.shared_per_block_optin;
      return true;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = d.max_blocks_per_sm;
      return true;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = d.shared_reserved_per_block;
      return true;
    case cudaDevAttrClusterLaunch:
      *value = p.clusterLaunch;
      return true;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanMapHostMemory:
      *value = 1;
      return true;
    default:
      return false;
  }
}

int BlocksPerSm(const Kernel& kernel, int threads, size_t shared) {
  return device::ComputeOccupancy(CurrentSession().device, threads, kernel.registers,
                                  kernel.static_shared + static_cast<int64_t>(shared))
      .blocks_per_sm;
}

cudaError_t Occupancy(int* blocks, const void* function, int threads, size_t shared) {
  const Kernel* kernel = CurrentSession().FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  if (threads <= 0) return Report(cudaErrorInvalidValue);
  *blocks = BlocksPerSm(*kernel, threads, shared);
  return cudaSuccess;
}

/// The SMs of a cluster belong to one processing cluster (GPC), of which current GPUs with clusters
/// have eight. SMs come in pairs. NVIDIA does not publish how many a GPC has, and it differs
/// between GPUs of one model, so this is the most even distribution.
int ActiveClusters(const Kernel& kernel, const cudaLaunchConfig_t& config, int cluster) {
  constexpr int kGpcs = 8;
  const device::Description& d = CurrentSession().device;
  const auto threads =
      static_cast<int>(plan::Dim3{config.blockDim.x, config.blockDim.y, config.blockDim.z}.Count());
  if (d.major < 9 || threads <= 0) return 0;
  const int blocks = BlocksPerSm(kernel, threads, config.dynamicSmemBytes);
  const int pairs = d.sm_count / 2;
  int clusters = 0;
  for (int i = 0; i < kGpcs; ++i) {
    const int sms = 2 * (pairs / kGpcs + (i < pairs % kGpcs ? 1 : 0));
    clusters += sms * blocks / cluster;
  }
  return clusters;
}

int MaxThreads(const Kernel& kernel, const device::Description& d) {
  int threads = kernel.max_threads > 0 ? std::min(kernel.max_threads, d.max_threads_per_block)
                                       : d.max_threads_per_block;
  while (threads > kWarp && BlocksPerSm(kernel, threads, 0) == 0) threads -= kWarp;
  return threads;
}

}  // namespace
}  // namespace cupel::record

using namespace cupel::record;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : Report(cudaErrorInvalidDevice);
}
cudaError_t cudaInitDevice(int device, unsigned /*device_flags*/, unsigned /*flags*/) {
  return cudaSetDevice(device);
}
cudaError_t cudaSetDeviceFlags(unsigned /*flags*/) { return cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t /*value*/) {
  if (limit == cudaLimitPersistingL2CacheSize || limit == cudaLimitMaxL2FetchGranularity) {
    return cudaSuccess;  // hints
  }
  RefuseUnsupported("unsupported_api", "limits of the device's stack and heap cannot be changed",
                    "cudaDeviceSetLimit");
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache /*config*/) { return cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig /*config*/) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return Report(cudaErrorInvalidDevice);
  *properties = Properties(CurrentSession().device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return Report(cudaErrorInvalidDevice);
  if (!Attribute(attribute, CurrentSession().device, value)) {
    RefuseUnsupported("unsupported_api",
                      fmt::format("device attribute {} is not in cupel's GPU descriptions",
                                  static_cast<int>(attribute)),
                      "cudaDeviceGetAttribute");
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  Session& session = CurrentSession();
  const Kernel* kernel = session.FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = static_cast<size_t>(kernel->static_shared);
  attributes->constSizeBytes = static_cast<size_t>(kernel->constant_bytes);
  attributes->localSizeBytes = static_cast<size_t>(kernel->local_bytes);
  attributes->maxThreadsPerBlock = MaxThreads(*kernel, session.device);
  attributes->numRegs = kernel->registers;
  attributes->ptxVersion = session.device.major * 10 + session.device.minor;
  attributes->binaryVersion = attributes->ptxVersion;
  attributes->maxDynamicSharedSizeBytes =
      kernel->max_dynamic_shared >= 0 ? kernel->max_dynamic_shared
                                      : session.device.shared_per_block - kernel->static_shared;
  attributes->preferredShmemCarveout = -1;
  attributes->clusterDimMustBeSet = kernel->cluster[0] != 0 ? 1 : 0;
  attributes->requiredClusterWidth = static_cast<int>(kernel->cluster[0]);
  attributes->requiredClusterHeight = static_cast<int>(kernel->cluster[1]);
  attributes->requiredClusterDepth = static_cast<int>(kernel->cluster[2]);
  attributes->nonPortableClusterSizeAllowed = kernel->nonportable_cluster ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Session& session = CurrentSession();
  Kernel* kernel = session.FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > session.device.shared_per_block_optin - kernel->static_shared) {
      return Report(cudaErrorInvalidValue);
    }
    kernel->max_dynamic_shared = value;
  } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    kernel->nonportable_cluster = value != 0;
  } else if (attribute >= cudaFuncAttributeRequiredClusterWidth &&
             attribute <= cudaFuncAttributeRequiredClusterDepth) {
    RefuseUnsupported("unsupported_api",
                      "a required cluster size can be set with __cluster_dims__ only",
                      "cudaFuncSetAttribute");
  }
  return cudaSuccess;  // the others are hints
}
cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache /*config*/) {
  return CurrentSession().FindKernel(function) != nullptr ? cudaSuccess
                                                          : Report(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared) {
  return Occupancy(blocks, function, threads, shared);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared,
                                                                   unsigned /*flags*/) {
  return Occupancy(blocks, function, threads, shared);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                      int blocks, int threads) {
  const Session& session = CurrentSession();
  const Kernel* kernel = CurrentSession().FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  if (blocks <= 0 || threads <= 0) return Report(cudaErrorInvalidValue);
  const int unit = session.device.shared_allocation_unit;
  const int share = session.device.shared_per_sm / blocks / unit * unit -
                    session.device.shared_reserved_per_block;
  const int most = std::min(share, session.device.shared_per_block_optin) - kernel->static_shared;
  *bytes = static_cast<size_t>(std::max(0, most));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  const Kernel* kernel = CurrentSession().FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  auto cluster = RequiredCluster(*kernel);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      cluster = ClusterOf(config->attrs[i]);
    }
  }
  if (cluster.Count() == 0 || cluster.Count() > MaxClusterBlocks(*kernel)) {
    return Report(cudaErrorInvalidClusterSize);
  }
  *clusters = ActiveClusters(*kernel, *config, static_cast<int>(cluster.Count()));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  const Kernel* kernel = CurrentSession().FindKernel(function);
  if (kernel == nullptr) return Report(cudaErrorInvalidDeviceFunction);
  if (CurrentSession().device.major < 9) return Report(cudaErrorNotSupported);
  *size = static_cast<int>(MaxClusterBlocks(*kernel));
  while (*size > 1 && ActiveClusters(*kernel, *config, *size) == 0) *size /= 2;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  Session& session = CurrentSession();
  const auto error = static_cast<cudaError_t>(session.last_error);
  session.last_error = cudaSuccess;
  session.failed_launch.reset();
  return error;
}
cudaError_t cudaPeekAtLastError() {
  Session& session = CurrentSession();
  session.failed_launch.reset();
  return static_cast<cudaError_t>(session.last_error);
}
const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = Lookup(error);
  return found != nullptr ? found->name : "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = Lookup(error);
  return found != nullptr ? found->text : "unrecognized error code";
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
