// Allocation, copies, fills and device variables.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "plan/limits.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

bool OnDevice(const void* pointer) { return CurrentSession().memory.InRange(Handle(pointer)); }

cudaError_t Malloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return Report(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Session& session = CurrentSession();
  const uint64_t total = session.device.global_memory_bytes;
  if (bytes > total || session.memory.live_bytes() + bytes > total) {
    return Report(cudaErrorMemoryAllocation);
  }
  const Allocation* allocation = session.memory.Allocate(bytes, Origin::kMalloc);
  if (allocation == nullptr) return Report(cudaErrorMemoryAllocation);
  *pointer = std::bit_cast<void*>(allocation->base);
  return cudaSuccess;
}

cudaError_t Free(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const bool freed = CurrentSession().memory.Free(Handle(pointer), Origin::kMalloc);
  return freed ? cudaSuccess : Report(cudaErrorInvalidValue);
}

cudaError_t HostAlloc(void** pointer, size_t bytes) {
  constexpr size_t kMaxPinned = size_t{1} << 30;
  *pointer = bytes <= kMaxPinned ? std::calloc(1, bytes == 0 ? 1 : bytes) : nullptr;
  if (*pointer == nullptr) return Report(cudaErrorMemoryAllocation);
  CurrentSession().pinned[Handle(*pointer)] = bytes;
  return cudaSuccess;
}

cudaError_t FreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (CurrentSession().pinned.erase(Handle(pointer)) == 0) return Report(cudaErrorInvalidValue);
  CurrentSession().HostWaited();  // it waits for the device, too
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, uint64_t stream) {
  if (bytes == 0) return cudaSuccess;
  Session& session = CurrentSession();
  const bool to_device = OnDevice(to);
  const bool from_device = OnDevice(from);
  // From device to device, a GPU ignores the direction (CUDA 13.0 on an H200).
  const bool agrees =
      kind == cudaMemcpyDefault || (to_device && from_device && kind != cudaMemcpyHostToHost) ||
      (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
       from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
  if (!agrees) return Report(cudaErrorInvalidValue);
  if (to_device && from_device) {
    session.Submit(stream, RawCopy{Handle(to), Handle(from), bytes});
  } else if (to_device) {
    session.Submit(stream, RawUpload{Handle(to), from, bytes});
  } else if (from_device) {
    session.ReadDevice(Handle(from), bytes, to, "cudaMemcpy");
  } else {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}

RawView Rows(const void* address, size_t pitch, size_t width, size_t height) {
  return {Handle(address),
          DType::kU8,
          {static_cast<int64_t>(height), static_cast<int64_t>(width)},
          {static_cast<int64_t>(pitch), 1}};
}

cudaError_t Copy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, cudaMemcpyKind kind, uint64_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > to_pitch || width > from_pitch) return Report(cudaErrorInvalidPitchValue);
  if (OnDevice(to) && OnDevice(from)) {
    CurrentSession().Submit(stream, RawCopyView{Rows(to, to_pitch, width, height),
                                                Rows(from, from_pitch, width, height)});
    return cudaSuccess;
  }
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error =
        Copy(static_cast<char*>(to) + row * to_pitch,
             static_cast<const char*>(from) + row * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t Set(void* to, int value, size_t bytes, uint64_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!OnDevice(to)) return Report(cudaErrorInvalidValue);
  const std::string pattern(1, static_cast<char>(value));
  CurrentSession().Submit(stream, RawFill{Handle(to), pattern, bytes});
  return cudaSuccess;
}

/// The address of `bytes` at `offset` of a device variable. On error reports it and returns null.
char* SymbolAt(const void* symbol, size_t bytes, size_t offset) {
  const Allocation* variable = CurrentSession().FindSymbol(symbol);
  if (variable == nullptr) {
    Report(cudaErrorInvalidSymbol);
    return nullptr;
  }
  if (offset > variable->bytes || bytes > variable->bytes - offset) {
    Report(cudaErrorInvalidValue);
    return nullptr;
  }
  return std::bit_cast<char*>(variable->base + offset);
}

cudaError_t CopyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                         cudaMemcpyKind kind, uint64_t stream) {
  char* to = SymbolAt(symbol, bytes, offset);
  if (to == nullptr) return static_cast<cudaError_t>(CurrentSession().last_error);
  return Copy(to, from, bytes, kind, stream);
}

cudaError_t CopyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                           cudaMemcpyKind kind, uint64_t stream) {
  const char* from = SymbolAt(symbol, bytes, offset);
  if (from == nullptr) return static_cast<cudaError_t>(CurrentSession().last_error);
  return Copy(to, from, bytes, kind, stream);
}

}  // namespace

void FillView(uint64_t stream, const RawView& view, const void* element) {
  Session& session = CurrentSession();
  const auto size = static_cast<size_t>(SizeOf(view.dtype));
  std::string pattern(static_cast<const char*>(element), size);
  int64_t count = 1;
  bool contiguous = true;
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] != 1 && view.strides[i] != count) contiguous = false;
    count *= view.shape[i];
  }
  if (count == 0) return;
  if (contiguous) {
    session.Submit(stream, RawFill{view.address, std::move(pattern), static_cast<uint64_t>(count)});
    return;
  }
  // Fill one element in memory and copy it with strides of zero.
  const Allocation* source = session.memory.Allocate(size, Origin::kTensor);
  if (source == nullptr) Refuse("host_exception", "CUDA out of memory");
  RawView from = view;
  from.address = source->base;
  from.strides.assign(view.shape.size(), 0);
  session.Submit(stream, RawFill{source->base, std::move(pattern), 1});
  session.Submit(stream, RawCopyView{view, std::move(from)});
  session.memory.Free(source->base, Origin::kTensor);
}

}  // namespace cupel::record

using namespace cupel::record;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return Malloc(pointer, bytes); }
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t /*stream*/) {
  return Malloc(pointer, bytes);
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t /*pool*/,
                                    cudaStream_t /*stream*/) {
  return Malloc(pointer, bytes);
}
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  constexpr size_t kPitch = 512;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return Malloc(pointer, *pitch * height);
}
cudaError_t cudaMallocManaged(void** /*pointer*/, size_t /*bytes*/, unsigned /*flags*/) {
  RefuseUnsupported("unsupported_api", "managed memory is not supported", "cudaMallocManaged");
}
cudaError_t cudaFree(void* pointer) {
  // cudaFree waits for the device.
  if (pointer != nullptr) {
    CurrentSession().streams.SynchronizeAll();
    CurrentSession().HostWaited();
  }
  return Free(pointer);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t /*stream*/) { return Free(pointer); }

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return HostAlloc(pointer, bytes); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  return HostAlloc(pointer, bytes);
}
cudaError_t cudaFreeHost(void* pointer) { return FreeHost(pointer); }
cudaError_t cudaHostGetDevicePointer(void** /*device*/, void* /*host*/, unsigned /*flags*/) {
  RefuseUnsupported("unsupported_api", "host memory mapped into the GPU is not supported",
                    "cudaHostGetDevicePointer");
}
cudaError_t cudaHostRegister(void* /*pointer*/, size_t /*bytes*/, unsigned /*flags*/) {
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* /*pointer*/) { return cudaSuccess; }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, kLegacyStream);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const cudaError_t status = Copy(to, from, bytes, kind, StreamOf(stream));
  if (status == cudaSuccess && OnDevice(to)) CurrentSession().NoteAsyncRead(from, bytes);
  return status;
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, kLegacyStream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, StreamOf(stream));
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return CopyToSymbol(symbol, from, bytes, offset, kind, kLegacyStream);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyToSymbol(symbol, from, bytes, offset, kind, StreamOf(stream));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return CopyFromSymbol(to, symbol, bytes, offset, kind, kLegacyStream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyFromSymbol(to, symbol, bytes, offset, kind, StreamOf(stream));
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  *pointer = SymbolAt(symbol, 0, 0);
  return *pointer != nullptr ? cudaSuccess : cudaErrorInvalidSymbol;
}
cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  const Allocation* variable = CurrentSession().FindSymbol(symbol);
  if (variable == nullptr) return Report(cudaErrorInvalidSymbol);
  *size = variable->bytes;
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return Set(to, value, bytes, kLegacyStream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Set(to, value, bytes, StreamOf(stream));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  if (width > pitch) return Report(cudaErrorInvalidPitchValue);
  const auto byte = static_cast<unsigned char>(value);
  FillView(StreamOf(stream), Rows(to, pitch, width, height), &byte);
  return cudaSuccess;
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  // A constant, because plans must not depend on what earlier calls allocated.
  *total = CurrentSession().device.global_memory_bytes;
  *free = *total / 10 * 9;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  Session& session = CurrentSession();
  if (session.memory.InRange(Handle(pointer))) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (session.pinned.contains(Handle(pointer))) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = const_cast<void*>(pointer);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetMemPool(pool, device);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  static char default_pool = 0;
  if (device != 0) return Report(cudaErrorInvalidDevice);
  *pool = reinterpret_cast<cudaMemPool_t>(&default_pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*attribute*/,
                                    void* /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t /*pool*/, size_t /*bytes*/) { return cudaSuccess; }

}  // extern "C"
