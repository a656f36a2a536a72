// Storage and TensorImpl: reference-counted handles of memory from the recorder (CUDA) or malloc
// (CPU). Counts are plain integers, since a candidate has one host thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/TensorOptions.h"
#include "c10/util/ArrayRef.h"
#include "cupel/abi.h"

namespace cupel::shim {

struct Storage {
  int references = 1;
  bool is_cuda = false;
  bool owned = true;  // false: arguments and from_blob without a deleter
  uint64_t address = 0;
  uint64_t bytes = 0;
  void (*release)(void* context, uint64_t address) = nullptr;  // from_blob's deleter
  void* context = nullptr;
};

struct TensorImpl {
  int references = 1;
  Storage* storage = nullptr;
  CupelTensor d = {};
};

/// Sizes and strides under construction.
struct Geometry {
  int ndim = 0;
  int64_t sizes[CUPEL_MAX_DIMS] = {};
  int64_t strides[CUPEL_MAX_DIMS] = {};
  int64_t offset = 0;
  void Add(int64_t size, int64_t stride) {
    sizes[ndim] = size;
    strides[ndim++] = stride;
  }
};

void Release(TensorImpl* impl);
[[noreturn]] inline void Refuse(const char* code, const Text& message) {
  cupel_rt_refuse(code, message.c_str());
}
/// Throws if `count` dimensions are more than the interface to the recorder supports.
void CheckDims(size_t count);
void CheckStorable(c10::ScalarType type);
Storage* NewStorage(bool is_cuda, uint64_t bytes);
/// A new tensor of geometry `g` in `storage`, whose reference it takes over.
TensorImpl* NewImpl(Storage* storage, const Geometry& g, int32_t dtype);
/// A tensor that borrows the recorder's data.
TensorImpl* Borrow(const CupelTensor& tensor);
/// Number of elements; throws for negative sizes.
int64_t CountElements(c10::IntArrayRef sizes);

#if CUPEL_BODIES
CUPEL_INLINE void Release(TensorImpl* impl) {
  if (!impl || --impl->references > 0) return;
  Storage* s = impl->storage;
  if (--s->references == 0) {
    if (s->release) {
      s->release(s->context, s->address);
    } else if (s->owned && s->is_cuda) {
      cupel_rt_free(s->address);
    } else if (s->owned) {
      std::free(reinterpret_cast<void*>(s->address));
    }
    delete s;
  }
  delete impl;
}
CUPEL_INLINE void CheckDims(size_t count) {
  if (count > CUPEL_MAX_DIMS)
    Refuse("unsupported_api", Text() << "a tensor of " << count << " dimensions (at most "
                                     << CUPEL_MAX_DIMS << " are supported)");
}
CUPEL_INLINE void CheckStorable(c10::ScalarType type) {
  if (c10::elementSize(type) == 0)
    Refuse("unsupported_api", Text() << "a tensor of dtype " << c10::toString(type));
}
CUPEL_INLINE Storage* NewStorage(bool is_cuda, uint64_t bytes) {
  Storage* s = new Storage;
  s->is_cuda = is_cuda;
  s->bytes = bytes;
  if (is_cuda) {
    s->address = cupel_rt_alloc(bytes);
  } else {
    void* p = std::calloc(bytes ? bytes : 1, 1);
    if (!p)
      Throw<c10::Error>(Text() << "DefaultCPUAllocator: can't allocate memory: you tried to "
                                  "allocate "
                               << bytes << " bytes.");
    s->address = reinterpret_cast<uint64_t>(p);
  }
  return s;
}
CUPEL_INLINE TensorImpl* NewImpl(Storage* storage, const Geometry& g, int32_t dtype) {
  TensorImpl* impl = new TensorImpl;
  impl->storage = storage;
  CupelTensor& d = impl->d;
  d.storage = storage->address;
  d.storage_bytes = storage->bytes;
  d.offset = g.offset;
  d.dtype = dtype;
  d.device = storage->is_cuda ? CUPEL_CUDA : CUPEL_CPU;
  d.ndim = g.ndim;
  for (int i = 0; i < g.ndim; ++i) {
    d.sizes[i] = g.sizes[i];
    d.strides[i] = g.strides[i];
  }
  return impl;
}
CUPEL_INLINE TensorImpl* Borrow(const CupelTensor& tensor) {
  Storage* s = new Storage;
  s->is_cuda = tensor.device == CUPEL_CUDA;
  s->owned = false;
  s->address = tensor.storage;
  s->bytes = tensor.storage_bytes;
  TensorImpl* impl = new TensorImpl;
  impl->storage = s;
  impl->d = tensor;
  return impl;
}
CUPEL_INLINE int64_t CountElements(c10::IntArrayRef sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0)
      Throw<c10::Error>(
          (Text() << "Trying to create tensor with negative dimension " << size << ": ")
              .List(sizes.data(), sizes.size()));
    if (__builtin_mul_overflow(count, size, &count))
      Throw<c10::Error>(
          (Text() << "numel: integer multiplication overflow: ").List(sizes.data(), sizes.size()));
  }
  return count;
}
#endif

}  // namespace cupel::shim
