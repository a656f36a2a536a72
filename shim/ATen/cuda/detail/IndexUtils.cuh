// getTensorInfo, and whether 32-bit indices reach all elements of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/detail/TensorInfo.cuh"

namespace at::cuda::detail {

inline bool canUse32BitIndexMath(const TensorBase& t,
                                 int64_t max_elements = std::numeric_limits<int32_t>::max()) {
  if (t.numel() >= max_elements) return false;
  int64_t last = 0;
  for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
  return t.numel() == 0 || last < max_elements;
}

template <class T, class IndexType>
TensorInfo<T, IndexType> getTensorInfo(const TensorBase& t) {
  IndexType sizes[MAX_TENSORINFO_DIMS], strides[MAX_TENSORINFO_DIMS];
  for (int64_t i = 0; i < t.dim(); ++i) {
    sizes[i] = static_cast<IndexType>(t.size(i));
    strides[i] = static_cast<IndexType>(t.stride(i));
  }
  return {static_cast<T*>(t.data_ptr<std::remove_const_t<T>>()), static_cast<int>(t.dim()), sizes,
          strides};
}

}  // namespace at::cuda::detail

namespace at::native {
using at::cuda::detail::canUse32BitIndexMath;
}  // namespace at::native
