// The CUDA driver's entry points, opened at run time, so that one binary works on machines with and
// without a GPU. Names and meanings follow the CUDA driver API. Prototypes are declared here, so
// that no CUDA header is needed to build.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace cupel::gpu {

using CuResult = int;        // CUresult; 0 is success
using CuDevice = int;        // CUdevice
using CuPointer = uint64_t;  // CUdeviceptr
struct CuContextOpaque;
struct CuModuleOpaque;
struct CuFunctionOpaque;
struct CuStreamOpaque;
struct CuEventOpaque;
struct CuGraphOpaque;
struct CuGraphExecOpaque;
struct CuGraphNodeOpaque;
using CuContext = CuContextOpaque*;
using CuModule = CuModuleOpaque*;
using CuFunction = CuFunctionOpaque*;
using CuStream = CuStreamOpaque*;
using CuEvent = CuEventOpaque*;
using CuGraph = CuGraphOpaque*;
using CuGraphExec = CuGraphExecOpaque*;
using CuGraphNode = CuGraphNodeOpaque*;
// CUdevice_attribute and CUfunction_attribute: the ones that several files use.
inline constexpr int kMultiprocessors = 16;
inline constexpr int kMaxDynamicShared = 8;

/// CUuuid.
struct CuUuid {
  unsigned char bytes[16];
};

/// CUlaunchAttribute: an id, then 64 bytes of value.
struct CuLaunchAttribute {
  int id = 0;
  int padding = 0;
  alignas(8) unsigned char value[64] = {};
};
/// CUlaunchConfig.
struct CuLaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct Driver {
  CuResult (*init)(unsigned) = nullptr;
  CuResult (*version)(int*) = nullptr;
  CuResult (*device_count)(int*) = nullptr;
  CuResult (*device_get)(CuDevice*, int) = nullptr;
  CuResult (*device_name)(char*, int, CuDevice) = nullptr;
  CuResult (*device_attribute)(int*, int, CuDevice) = nullptr;
  CuResult (*device_total_memory)(size_t*, CuDevice) = nullptr;
  CuResult (*device_uuid)(CuUuid*, CuDevice) = nullptr;
  CuResult (*context_retain)(CuContext*, CuDevice) = nullptr;
  CuResult (*context_release)(CuDevice) = nullptr;
  CuResult (*context_set_current)(CuContext) = nullptr;
  CuResult (*context_synchronize)() = nullptr;
  CuResult (*context_reset_persisting_l2)() = nullptr;
  CuResult (*module_load)(CuModule*, const void*, unsigned, int*, void**) = nullptr;
  CuResult (*module_unload)(CuModule) = nullptr;
  CuResult (*module_function)(CuFunction*, CuModule, const char*) = nullptr;
  CuResult (*module_global)(CuPointer*, size_t*, CuModule, const char*) = nullptr;
  CuResult (*function_set)(CuFunction, int, int) = nullptr;
  CuResult (*parameter_info)(CuFunction, size_t, size_t*, size_t*) = nullptr;  // null before 12.4
  CuResult (*memory_allocate)(CuPointer*, size_t) = nullptr;
  CuResult (*memory_free)(CuPointer) = nullptr;
  CuResult (*memory_info)(size_t*, size_t*) = nullptr;
  CuResult (*host_allocate)(void**, size_t) = nullptr;
  CuResult (*host_free)(void*) = nullptr;
  CuResult (*host_register)(void*, size_t, unsigned) = nullptr;
  CuResult (*host_unregister)(void*) = nullptr;
  CuResult (*copy_in_now)(CuPointer, const void*, size_t) = nullptr;
  CuResult (*copy_in)(CuPointer, const void*, size_t, CuStream) = nullptr;
  CuResult (*copy_out)(void*, CuPointer, size_t, CuStream) = nullptr;
  CuResult (*copy_across)(CuPointer, CuPointer, size_t, CuStream) = nullptr;
  CuResult (*fill_8)(CuPointer, unsigned char, size_t, CuStream) = nullptr;
  CuResult (*fill_16)(CuPointer, unsigned short, size_t, CuStream) = nullptr;
  CuResult (*fill_32)(CuPointer, unsigned, size_t, CuStream) = nullptr;
  CuResult (*launch)(const CuLaunchConfig*, CuFunction, void**, void**) = nullptr;
  CuResult (*context_reset)(CuDevice) = nullptr;  // destroys all that the process has on the GPU
  // Null before 12.0.
  CuResult (*tensor_map_tiled)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                               const uint32_t*, const uint32_t*, int, int, int, int) = nullptr;
  CuResult (*tensor_map_im2col)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                const int*, const int*, uint32_t, uint32_t, const uint32_t*, int,
                                int, int, int) = nullptr;
  CuResult (*stream_create)(CuStream*, unsigned) = nullptr;
  CuResult (*stream_destroy)(CuStream) = nullptr;
  CuResult (*stream_query)(CuStream) = nullptr;
  CuResult (*stream_synchronize)(CuStream) = nullptr;
  CuResult (*event_create)(CuEvent*, unsigned) = nullptr;
  CuResult (*event_destroy)(CuEvent) = nullptr;
  CuResult (*event_record)(CuEvent, CuStream, unsigned) = nullptr;
  CuResult (*event_elapsed)(float*, CuEvent, CuEvent) = nullptr;
  CuResult (*capture_begin)(CuStream, int) = nullptr;
  CuResult (*capture_end)(CuStream, CuGraph*) = nullptr;
  CuResult (*capture_info)(CuStream, int*, uint64_t*, CuGraph*, const CuGraphNode**,
                           size_t*) = nullptr;
  CuResult (*capture_dependencies)(CuStream, CuGraphNode*, size_t, unsigned) = nullptr;
  CuResult (*graph_instantiate)(CuGraphExec*, CuGraph, unsigned long long) = nullptr;
  CuResult (*graph_launch)(CuGraphExec, CuStream) = nullptr;
  CuResult (*graph_exec_destroy)(CuGraphExec) = nullptr;
  CuResult (*graph_destroy)(CuGraph) = nullptr;
  CuResult (*error_name)(CuResult, const char**) = nullptr;
  CuResult (*error_text)(CuResult, const char**) = nullptr;

  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (700)".
  std::string Describe(CuResult code) const;
  /// Success, or an Error that says that `what` failed.
  Status Check(CuResult code, const char* what) const;
};

/// Opens libcuda.so.1 and initialises it. kEnvironment without a driver or a GPU. The library stays
/// open until the process ends.
Result<std::shared_ptr<const Driver>> OpenDriver();

}  // namespace cupel::gpu
