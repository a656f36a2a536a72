// The C functions below the stable ABI. A handle is the address of an at::Tensor. Handles that a
// function makes must be deleted, or be given to a torch::stable::Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/CUDAContext.h"
#include "cupel/factories.h"
#include "torch/csrc/stable/version.h"
#include "torch/headeronly/util/shim_utils.h"

using AOTITorchError = int32_t;
using AtenTensorOpaque = at::Tensor;
using AtenTensorHandle = AtenTensorOpaque*;
using StableIValue = uint64_t;

extern "C" {  // candidates declare some of them, too

#define CUPEL_HANDLE_READER(name, type, expression)                        \
  inline AOTITorchError aoti_torch_##name(AtenTensorHandle t, type* out) { \
    *out = static_cast<type>(expression);                                  \
    return TORCH_SUCCESS;                                                  \
  }
CUPEL_HANDLE_READER(get_data_ptr, void*, t->data_ptr())
CUPEL_HANDLE_READER(get_dim, int64_t, t->dim())
CUPEL_HANDLE_READER(get_numel, int64_t, t->numel())
CUPEL_HANDLE_READER(get_storage_offset, int64_t, t->storage_offset())
CUPEL_HANDLE_READER(get_dtype, int32_t, t->scalar_type())
CUPEL_HANDLE_READER(get_device_type, int32_t, t->device().type())
CUPEL_HANDLE_READER(get_device_index, int32_t, t->device().index())
CUPEL_HANDLE_READER(get_storage_size, int64_t, t->storage().nbytes())
CUPEL_HANDLE_READER(get_layout, int32_t, t->layout())
CUPEL_HANDLE_READER(is_contiguous, bool, t->is_contiguous())
CUPEL_HANDLE_READER(is_defined, bool, t->defined())
CUPEL_HANDLE_READER(get_sizes, int64_t*, const_cast<int64_t*>(t->sizes().data()))
CUPEL_HANDLE_READER(get_strides, int64_t*, const_cast<int64_t*>(t->strides().data()))
#undef CUPEL_HANDLE_READER

inline AOTITorchError aoti_torch_get_size(AtenTensorHandle t, int64_t dim, int64_t* out) {
  *out = t->size(dim);
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_get_stride(AtenTensorHandle t, int64_t dim, int64_t* out) {
  *out = t->stride(dim);
  return TORCH_SUCCESS;
}
inline AOTITorchError torch_get_mutable_data_ptr(AtenTensorHandle t, void** out) {
  return aoti_torch_get_data_ptr(t, out);
}
inline AOTITorchError torch_get_const_data_ptr(AtenTensorHandle t, const void** out) {
  *out = t->const_data_ptr();
  return TORCH_SUCCESS;
}

#define CUPEL_NUMBER_OF(name, value) \
  inline int32_t aoti_torch_##name() { return static_cast<int32_t>(value); }
CUPEL_NUMBER_OF(device_type_cpu, c10::kCPU)
CUPEL_NUMBER_OF(device_type_cuda, c10::kCUDA)
CUPEL_NUMBER_OF(layout_strided, c10::kStrided)
CUPEL_NUMBER_OF(memory_format_contiguous_format, c10::MemoryFormat::Contiguous)
CUPEL_NUMBER_OF(memory_format_channels_last, c10::MemoryFormat::ChannelsLast)
CUPEL_NUMBER_OF(dtype_float64, c10::ScalarType::Double)
CUPEL_NUMBER_OF(dtype_float32, c10::ScalarType::Float)
CUPEL_NUMBER_OF(dtype_float16, c10::ScalarType::Half)
CUPEL_NUMBER_OF(dtype_bfloat16, c10::ScalarType::BFloat16)
CUPEL_NUMBER_OF(dtype_float8_e4m3fn, c10::ScalarType::Float8_e4m3fn)
CUPEL_NUMBER_OF(dtype_float8_e5m2, c10::ScalarType::Float8_e5m2)
CUPEL_NUMBER_OF(dtype_int64, c10::ScalarType::Long)
CUPEL_NUMBER_OF(dtype_int32, c10::ScalarType::Int)
CUPEL_NUMBER_OF(dtype_int16, c10::ScalarType::Short)
CUPEL_NUMBER_OF(dtype_int8, c10::ScalarType::Char)
CUPEL_NUMBER_OF(dtype_uint8, c10::ScalarType::Byte)
CUPEL_NUMBER_OF(dtype_bool, c10::ScalarType::Bool)
#undef CUPEL_NUMBER_OF
inline size_t aoti_torch_dtype_element_size(int32_t dtype) {
  return c10::elementSize(static_cast<c10::ScalarType>(dtype));
}

inline AOTITorchError aoti_torch_empty_strided(int64_t dims, const int64_t* sizes,
                                               const int64_t* strides, int32_t dtype,
                                               int32_t device_type, int32_t device_index,
                                               AtenTensorHandle* out) {
  const auto count = static_cast<size_t>(dims);
  const c10::Device device(static_cast<c10::DeviceType>(device_type),
                           static_cast<c10::DeviceIndex>(device_index));
  const auto options = c10::TensorOptions(static_cast<c10::ScalarType>(dtype)).device(device);
  *out = new at::Tensor(
      at::empty_strided(c10::IntArrayRef(sizes, count), c10::IntArrayRef(strides, count), options));
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle* out) {
  *out = new at::Tensor();
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle t, AtenTensorHandle* out) {
  *out = new at::Tensor(*t);
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_clone(AtenTensorHandle t, AtenTensorHandle* out) {
  *out = new at::Tensor(t->clone());
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle t) {
  delete t;
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_zero_(AtenTensorHandle t) {
  t->zero_();
  return TORCH_SUCCESS;
}

inline AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void** out) {
  *out = c10::cuda::getCurrentCUDAStream().stream();
  return TORCH_SUCCESS;
}
inline AOTITorchError aoti_torch_get_current_device_index(int32_t* out) {
  *out = 0;
  return TORCH_SUCCESS;
}
inline AOTITorchError torch_get_current_cuda_blas_handle(void** out) {
  *out = at::cuda::getCurrentCUDABlasHandle();
  return TORCH_SUCCESS;
}

/// An operator of PyTorch by name. Its arguments have no types here, so they cannot be recorded.
inline AOTITorchError torch_call_dispatcher(const char* name, const char*, StableIValue*,
                                            uint64_t) {
  cupel::shim::Refuse("unsupported_api", cupel::shim::Text()
                                             << "torch_call_dispatcher(\"" << name
                                             << "\") of the stable ABI: cupel knows only the "
                                                "operators that are functions of torch::stable");
}
inline AOTITorchError aoti_torch_call_dispatcher(const char* name, const char* overload,
                                                 StableIValue* stack) {
  return torch_call_dispatcher(name, overload, stack, 0);
}

}  // extern "C"
