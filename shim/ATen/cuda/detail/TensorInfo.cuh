// TensorInfo: a tensor's address, sizes and strides as a kernel's argument, and the conversion of
// an element's number to its offset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/tensor.h"

#define MAX_TENSORINFO_DIMS 25

namespace at::cuda::detail {

template <class T, class IndexType>
struct TensorInfo {
  TensorInfo() : data(nullptr), dims(0) {}
  TensorInfo(T* p, int dim, IndexType size[MAX_TENSORINFO_DIMS],
             IndexType stride[MAX_TENSORINFO_DIMS])
      : data(p), dims(dim) {
    TORCH_CHECK(dims < MAX_TENSORINFO_DIMS, "CUDA Tensors cannot have more than 25 dimensions");
    for (int i = 0; i < dim; ++i) {
      sizes[i] = size[i];
      strides[i] = stride[i];
    }
  }
  void reduceDim(int dim) {
    TORCH_CHECK(dim < dims && dim >= 0, "expected dim between 0 and dims - 1");
    sizes[dim] = 1;
  }
  /// Joins neighbours that one stride can walk, except `excluded`. Returns its new position;
  /// without one -1, or 0 for a single element.
  int collapseDims(int excluded = -1) {
    TORCH_CHECK(excluded >= -1 && excluded < dims, "expected excluded dim between -1 and dims - 1");
    int last = -1, moved = -1;
    bool may_join = false;
    for (int i = 0; i < dims; ++i) {
      if (sizes[i] == 1 && i != excluded) continue;
      if (may_join && i != excluded && strides[last] == sizes[i] * strides[i]) {
        sizes[last] *= sizes[i];
        strides[last] = strides[i];
        continue;
      }
      sizes[++last] = sizes[i];
      strides[last] = strides[i];
      may_join = i != excluded;
      if (i == excluded) moved = last;
    }
    if (last < 0) {
      last = moved = 0;
      sizes[0] = strides[0] = 1;
    }
    dims = last + 1;
    return moved;
  }
  CUPEL_HOST_DEVICE bool isContiguous() const { return dims == 1 && strides[0] == 1; }

  // Set beyond `dims`, too: kernels get all of it, and equal calls have equal parameters.
  T* data;
  IndexType sizes[MAX_TENSORINFO_DIMS] = {};
  IndexType strides[MAX_TENSORINFO_DIMS] = {};
  int dims;
};

/// Dims: the number of dimensions, or -1 if only info.dims knows it.
template <class T, class IndexType, int Dims>
struct IndexToOffset {
  static CUPEL_HOST_DEVICE IndexType get(IndexType linear, const TensorInfo<T, IndexType>& info) {
    IndexType offset = 0;
    for (int i = (Dims == -1 ? info.dims : Dims) - 1; i > 0; --i) {
      offset += linear % info.sizes[i] * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};

}  // namespace at::cuda::detail
