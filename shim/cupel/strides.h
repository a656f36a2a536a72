// The arithmetic of sizes and strides behind views, copies and memory formats: contiguity, dense
// layouts, shape inference, and whether a shape can be viewed without a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/tensor_impl.h"

#if CUPEL_BODIES
namespace cupel::shim {

using c10::IntArrayRef;

CUPEL_INLINE Text Sizes(IntArrayRef list) {
  Text text;
  text.List(list.data(), list.size());
  return text;
}

/// Converts a dimension counted from the end into one counted from the start.
CUPEL_INLINE int WrapDim(int64_t dim, int64_t ndim, bool scalar_wraps = true) {
  if (ndim == 0) {
    if (!scalar_wraps)
      Throw<c10::IndexError>(Text() << "Dimension specified as " << dim
                                    << " but tensor has no dimensions");
    ndim = 1;
  }
  if (dim < -ndim || dim >= ndim)
    Throw<c10::IndexError>(Text() << "Dimension out of range (expected to be in range of [" << -ndim
                                  << ", " << ndim - 1 << "], but got " << dim << ")");
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

CUPEL_INLINE Geometry Contiguous(IntArrayRef sizes) {
  CheckDims(sizes.size());
  Geometry g;
  g.ndim = static_cast<int>(sizes.size());
  int64_t stride = 1;
  for (int i = g.ndim - 1; i >= 0; --i) {
    g.sizes[i] = sizes[static_cast<size_t>(i)];
    g.strides[i] = stride;
    stride *= std::max<int64_t>(g.sizes[i], 1);
  }
  return g;
}

/// Channels-last strides for NCHW (4) or NCDHW (5) sizes.
CUPEL_INLINE Geometry ChannelsLast(IntArrayRef sizes, c10::MemoryFormat format) {
  size_t wanted = format == c10::MemoryFormat::ChannelsLast ? 4 : 5;
  if (sizes.size() != wanted)
    Throw<c10::Error>(Text() << "required rank " << wanted << " tensor to use channels_last"
                             << (wanted == 5 ? "_3d" : "") << " format");
  Geometry g = Contiguous(sizes);
  int64_t stride = 1;
  for (int k = 0; k < g.ndim; ++k) {
    int i = k == 0 ? 1 : k == g.ndim - 1 ? 0 : g.ndim - k;  // C, then the spatial ones, then N
    g.strides[i] = stride;
    stride *= std::max<int64_t>(g.sizes[i], 1);
  }
  return g;
}

CUPEL_INLINE Geometry Formatted(IntArrayRef sizes, c10::MemoryFormat format) {
  bool last =
      format == c10::MemoryFormat::ChannelsLast || format == c10::MemoryFormat::ChannelsLast3d;
  return last ? ChannelsLast(sizes, format) : Contiguous(sizes);
}

/// True if there are no gaps between the elements in the order given by `order`.
CUPEL_INLINE bool DenseInOrder(const CupelTensor& d, const int* order) {
  int64_t expected = 1;
  for (int k = 0; k < d.ndim; ++k) {
    int i = order[k];
    if (d.sizes[i] == 1) continue;
    if (d.strides[i] != expected) return false;
    expected *= d.sizes[i];
  }
  return true;
}

CUPEL_INLINE bool IsContiguous(const CupelTensor& d, c10::MemoryFormat format) {
  int order[CUPEL_MAX_DIMS];
  bool last =
      format == c10::MemoryFormat::ChannelsLast || format == c10::MemoryFormat::ChannelsLast3d;
  if (last) {
    if (d.ndim != (format == c10::MemoryFormat::ChannelsLast ? 4 : 5)) return false;
    for (int k = 0; k < d.ndim; ++k) order[k] = k == 0 ? 1 : k == d.ndim - 1 ? 0 : d.ndim - k;
    return DenseInOrder(d, order);
  }
  for (int k = 0; k < d.ndim; ++k) {
    if (d.sizes[k] == 0) return true;
    order[k] = d.ndim - 1 - k;
  }
  return DenseInOrder(d, order);
}

CUPEL_INLINE bool IsDense(const CupelTensor& d) {
  if (IsContiguous(d, c10::MemoryFormat::Contiguous)) return true;
  int order[CUPEL_MAX_DIMS];
  for (int k = 0; k < d.ndim; ++k) {  // by stride; dimensions of fewer than two elements last
    int at = k;
    auto before = [&](int b) {
      return d.sizes[k] >= 2 && (d.sizes[b] < 2 || d.strides[k] < d.strides[b]);
    };
    for (; at > 0 && before(order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = k;
  }
  int64_t expected = 1;
  for (int k = 0; k < d.ndim && d.sizes[order[k]] >= 2; ++k) {
    if (d.strides[order[k]] != expected) return false;
    expected *= d.sizes[order[k]];
  }
  return true;
}

CUPEL_INLINE bool LooksChannelsLast(const CupelTensor& d) {
  if (d.ndim != 4 && d.ndim != 5) return false;
  if (d.strides[1] == 0) return false;
  int64_t least = 0;
  for (int k = 0; k < d.ndim; ++k) {
    int i = k == 0 ? 1 : k == d.ndim - 1 ? 0 : d.ndim - k;
    if (d.sizes[i] == 0 || d.strides[i] < least) return false;
    if (i == 0 && least == d.strides[1]) return false;  // 1x1 images stay contiguous
    least = d.strides[i];
    if (d.sizes[i] > 1) least *= d.sizes[i];
  }
  return true;
}

/// Dense strides with the same order of dimensions as `d` (empty_like of a strided tensor).
CUPEL_INLINE Geometry DenseLike(const CupelTensor& d) {
  int order[CUPEL_MAX_DIMS];
  for (int i = 0; i < d.ndim; ++i) order[i] = d.ndim - 1 - i;
  auto compare = [&](int a, int b) {  // > 0: a belongs after b; 0: undecided
    if (d.strides[a] == 0 || d.strides[b] == 0) return 0;
    if (d.strides[a] != d.strides[b]) return d.strides[a] < d.strides[b] ? -1 : 1;
    return d.sizes[a] > d.sizes[b] ? 1 : 0;
  };
  for (int i = 1; i < d.ndim; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      int c = compare(order[j], order[at]);
      if (c < 0) break;
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      }
    }
  }
  Geometry g = Contiguous(IntArrayRef(d.sizes, static_cast<size_t>(d.ndim)));
  int64_t stride = 1;
  for (int k = 0; k < d.ndim; ++k) {
    g.strides[order[k]] = stride;
    if (d.sizes[order[k]] > 1) stride *= d.sizes[order[k]];
  }
  return g;
}

/// Fills in the one -1 of a wanted shape.
CUPEL_INLINE Geometry InferSize(IntArrayRef shape, int64_t numel) {
  CheckDims(shape.size());
  Geometry g;
  int unknown = -1;
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0) Throw<c10::Error>(Text() << "only one dimension can be inferred");
      unknown = static_cast<int>(i);
    } else if (shape[i] < 0) {
      Throw<c10::Error>(Text() << "invalid shape dimension " << shape[i]);
    } else {
      known *= shape[i];
    }
    g.Add(shape[i], 0);
  }
  bool fits = unknown < 0 ? known == numel : known > 0 && numel % known == 0;
  if (unknown >= 0 && known == 0 && numel == 0)
    Throw<c10::Error>(Text() << "cannot reshape tensor of 0 elements into shape " << Sizes(shape)
                             << " because the unspecified dimension size -1 can be any value and "
                                "is ambiguous");
  if (!fits)
    Throw<c10::Error>(Text() << "shape '" << Sizes(shape) << "' is invalid for input of size "
                             << numel);
  if (unknown >= 0) g.sizes[unknown] = numel / known;
  return g;
}

/// Sets the strides under which `d` can be viewed with g's sizes. Returns false if that needs a
/// copy.
CUPEL_INLINE bool ViewStrides(const CupelTensor& d, int64_t numel, Geometry& g) {
  if (numel == 0) {
    bool same = g.ndim == d.ndim && std::equal(g.sizes, g.sizes + g.ndim, d.sizes);
    for (int i = g.ndim - 1; i >= 0; --i)
      g.strides[i] = same              ? d.strides[i]
                     : i == g.ndim - 1 ? 1
                                       : std::max<int64_t>(g.sizes[i + 1], 1) * g.strides[i + 1];
    return true;
  }
  if (d.ndim == 0) {
    for (int i = 0; i < g.ndim; ++i) g.strides[i] = 1;
    return true;
  }
  int v = g.ndim - 1;
  int64_t base = d.strides[d.ndim - 1], tensor_count = 1, view_count = 1;
  for (int i = d.ndim - 1; i >= 0; --i) {
    tensor_count *= d.sizes[i];
    bool ends = i == 0 || (d.sizes[i - 1] != 1 && d.strides[i - 1] != tensor_count * base);
    if (!ends) continue;
    for (; v >= 0 && (view_count < tensor_count || g.sizes[v] == 1); --v) {
      g.strides[v] = view_count * base;
      view_count *= g.sizes[v];
    }
    if (view_count != tensor_count) return false;
    if (i > 0) {
      base = d.strides[i - 1];
      tensor_count = view_count = 1;
    }
  }
  return v == -1;
}

}  // namespace cupel::shim
#endif  // CUPEL_BODIES
