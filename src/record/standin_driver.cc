// The functions of the CUDA driver that host code of Hopper kernels calls, most of all those that
// make tensor maps. Candidates bind to them by name, or ask for them with cudaGetDriverEntryPoint
// or cuGetProcAddress.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "plan/tensor_map.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

using plan::TensorMap;

static_assert(sizeof(CUtensorMap) == plan::kTensorMapBytes);

struct DriverError {
  CUresult error;
  const char *name, *text;
};

constexpr DriverError kDriverErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const DriverError* Lookup(CUresult error) {
  const auto* const it = std::find_if(std::begin(kDriverErrors), std::end(kDriverErrors),
                                      [&](const DriverError& item) { return item.error == error; });
  return it == std::end(kDriverErrors) ? nullptr : it;
}

/// Returns `error` to the host code. If this makes it throw, the message says why.
CUresult Refused(const char* api, CUresult error, std::string_view why) {
  CurrentSession().driver_problem =
      fmt::format("{} returned {}: {}", api, Lookup(error)->name, why);
  return error;
}

/// What the two functions that make tensor maps have in common.
struct MapArguments {
  const char* api;
  CUtensorMap* to;
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void* address;
  const cuuint64_t *dims, *strides;
  const cuuint32_t* element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

CUresult CheckPlaces(const MapArguments& a) {
  const auto refused = [&](std::string_view why) {
    return Refused(a.api, CUDA_ERROR_INVALID_VALUE, why);
  };
  if (CurrentSession().device.major < 9) {
    return Refused(a.api, CUDA_ERROR_NOT_SUPPORTED, "tensor maps need compute capability 9.0");
  }
  if (a.rank < 1 || a.rank > plan::kMaxTensorMapRank) return refused("the rank must be 1 to 5");
  // The driver does not check the alignment of `to` (measured on an H200): g++ returns maps from
  // functions through memory that is not aligned.
  if (a.to == nullptr || a.address == nullptr || a.dims == nullptr ||
      a.element_strides == nullptr || (a.strides == nullptr && a.rank > 1)) {
    return refused("a pointer is null");
  }
  return CUDA_SUCCESS;
}

/// CheckPlaces(a) must have succeeded.
TensorMap CommonPart(const MapArguments& a) {
  TensorMap map;
  map.rank = static_cast<int>(a.rank);
  std::copy_n(a.dims, a.rank, map.dims.begin());
  if (a.rank > 1) std::copy_n(a.strides, a.rank - 1, map.strides.begin());
  std::copy_n(a.element_strides, a.rank, map.element_strides.begin());
  if (a.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) map.element_strides[0] = 1;  // ignored
  // Numbers outside the enumerations must not become valid ones.
  const auto narrow = [](auto value) {
    return static_cast<uint8_t>(std::min(static_cast<unsigned>(value), 255u));
  };
  map.type = static_cast<plan::TensorMapType>(narrow(a.type));
  map.interleave = static_cast<plan::Interleave>(narrow(a.interleave));
  map.swizzle = static_cast<plan::Swizzle>(narrow(a.swizzle));
  map.l2_promotion = static_cast<plan::L2Promotion>(narrow(a.promotion));
  map.fill = static_cast<plan::OobFill>(narrow(a.fill));
  return map;
}

CUresult Encode(const MapArguments& a, const TensorMap& map) {
  const auto refused = [&](std::string_view why) {
    return Refused(a.api, CUDA_ERROR_INVALID_VALUE, why);
  };
  if (const auto problem = plan::ProblemOf(map); !problem.empty()) return refused(problem);
  const bool blackwell =
      map.type > plan::TensorMapType::kTF32Ftz || map.swizzle > plan::Swizzle::k128B;
  if (blackwell && CurrentSession().device.major < 10) {
    return refused("the data type or the swizzle needs compute capability 10.0");
  }
  if (Handle(a.address) % plan::AlignmentOf(map) != 0) {
    return refused(
        fmt::format("the global address must be aligned to {} bytes", plan::AlignmentOf(map)));
  }
  const auto bytes = plan::EncodeTensorMap(map, Handle(a.address));
  std::memcpy(a.to, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

CUresult Fill(CUdeviceptr to, std::string pattern, size_t count, CUstream stream) {
  if (count == 0) return CUDA_SUCCESS;
  Session& session = CurrentSession();
  if (!session.memory.InRange(to) || to % pattern.size() != 0) return CUDA_ERROR_INVALID_VALUE;
  session.Submit(Handle(stream), RawFill{to, std::move(pattern), count});
  return CUDA_SUCCESS;
}

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct EntryPoint {
  std::string_view name;
  void* function;
};

template <typename Function>
EntryPoint Entry(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

/// The stand-in for the driver's function `name`. Ends the recording if there is none.
void* FindDriverFunction(std::string_view name) {
  static const EntryPoint entries[] = {
      Entry("cuTensorMapEncodeTiled", &cuTensorMapEncodeTiled),
      Entry("cuTensorMapEncodeIm2col", &cuTensorMapEncodeIm2col),
      Entry("cuTensorMapReplaceAddress", &cuTensorMapReplaceAddress),
      Entry("cuGetErrorName", &cuGetErrorName),
      Entry("cuGetErrorString", &cuGetErrorString),
      Entry("cuGetProcAddress", &cuGetProcAddress),
      Entry("cuInit", &cuInit),
      Entry("cuDriverGetVersion", &cuDriverGetVersion),
      Entry("cuDeviceGet", &cuDeviceGet),
      Entry("cuDeviceGetCount", &cuDeviceGetCount),
      Entry("cuDeviceGetAttribute", &cuDeviceGetAttribute),
      Entry("cuCtxGetCurrent", &cuCtxGetCurrent),
      Entry("cuCtxGetDevice", &cuCtxGetDevice),
      Entry("cuMemsetD8Async", &cuMemsetD8Async),
      Entry("cuMemsetD16Async", &cuMemsetD16Async),
      Entry("cuMemsetD32Async", &cuMemsetD32Async),
  };
  const auto* const found = std::find_if(std::begin(entries), std::end(entries),
                                         [&](const EntryPoint& e) { return e.name == name; });
  if (found != std::end(entries)) return found->function;
  RefuseUnsupported(
      "unsupported_api",
      fmt::format("the CUDA driver's function {} is not supported", name.substr(0, 100)),
      name.substr(0, 100));
}

cudaError_t GetEntryPoint(const char* symbol, void** function,
                          cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return Report(cudaErrorInvalidValue);
  *function = FindDriverFunction(symbol);
  if (status != nullptr) *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // namespace
}  // namespace cupel::record

using namespace cupel::record;

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const MapArguments a{
      "cuTensorMapEncodeTiled", to,         type,    rank,      address, dims, strides,
      element_strides,          interleave, swizzle, promotion, fill};
  if (const CUresult error = CheckPlaces(a); error != CUDA_SUCCESS) return error;
  if (box == nullptr) return Refused(a.api, CUDA_ERROR_INVALID_VALUE, "a pointer is null");
  TensorMap map = CommonPart(a);
  std::copy_n(box, rank, map.box.begin());
  return Encode(a, map);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const MapArguments a{
      "cuTensorMapEncodeIm2col", to,         type,    rank,      address, dims, strides,
      element_strides,           interleave, swizzle, promotion, fill};
  if (const CUresult error = CheckPlaces(a); error != CUDA_SUCCESS) return error;
  if (lower == nullptr || upper == nullptr) {
    return Refused(a.api, CUDA_ERROR_INVALID_VALUE, "a pointer is null");
  }
  TensorMap map = CommonPart(a);
  map.im2col = true;
  if (rank > 2) {
    std::copy_n(lower, rank - 2, map.lower.begin());
    std::copy_n(upper, rank - 2, map.upper.begin());
  }
  map.channels = channels;
  map.pixels = pixels;
  return Encode(a, map);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  constexpr const char* kApi = "cuTensorMapReplaceAddress";
  const auto old = map == nullptr ? std::nullopt
                                  : cupel::plan::DecodeTensorMap(std::as_bytes(std::span(map, 1)));
  if (!old || address == nullptr || Handle(address) % cupel::plan::AlignmentOf(old->map) != 0) {
    return Refused(kApi, CUDA_ERROR_INVALID_VALUE, "not a tensor map, or an unaligned address");
  }
  const auto bytes = cupel::plan::EncodeTensorMap(old->map, Handle(address));
  std::memcpy(map, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                    unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, status);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, status);
}
CUresult cuGetProcAddress(const char* symbol, void** function, int /*version*/,
                          cuuint64_t /*flags*/, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = FindDriverFunction(symbol);
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const DriverError* found = Lookup(error);
  *name = found != nullptr ? found->name : nullptr;
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  const DriverError* found = Lookup(error);
  *text = found != nullptr ? found->text : nullptr;
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned /*flags*/) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute == CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) {
    *value = CurrentSession().device.major >= 9 ? 1 : 0;
    return CUDA_SUCCESS;
  }
  cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);  // same numbers
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  static char one;
  *context = reinterpret_cast<CUcontext>(&one);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) { return cuDeviceGet(device, 0); }

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Fill(to, Bytes(value), count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return Fill(to, Bytes(value), count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Fill(to, Bytes(value), count, stream);
}

}  // extern "C"
