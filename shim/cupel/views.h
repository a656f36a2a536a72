// Views: shapes and strides exactly as PyTorch computes them, errors included. Pure host
// arithmetic: only reshape() and contiguous() touch memory, since they may copy. Tested by
// tests/shim against a table made with PyTorch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/strides.h"
#include "cupel/tensor.h"

#if CUPEL_BODIES
namespace at {

using cupel::shim::Geometry;
using cupel::shim::Sizes;
using cupel::shim::Text;
using cupel::shim::Throw;
using cupel::shim::WrapDim;

CUPEL_INLINE void Tensor::Undefined() {
  Throw<c10::Error>(Text() << "Expected a proper Tensor but got None (or an undefined Tensor in "
                              "C++)");
}
CUPEL_INLINE int64_t Tensor::Wrap(int64_t dim) const { return WrapDim(dim, d().ndim, false); }
CUPEL_INLINE Geometry Tensor::AsGeometry() const {
  Geometry g;
  for (int i = 0; i < d().ndim; ++i) g.Add(d().sizes[i], d().strides[i]);
  g.offset = d().offset;
  return g;
}
CUPEL_INLINE Tensor Tensor::View(const Geometry& g) const {
  ++impl_->storage->references;
  return Tensor(cupel::shim::NewImpl(impl_->storage, g, d().dtype));
}
CUPEL_INLINE bool Tensor::is_contiguous(MemoryFormat format) const {
  return cupel::shim::IsContiguous(d(), format);
}
CUPEL_INLINE bool Tensor::is_non_overlapping_and_dense() const { return cupel::shim::IsDense(d()); }
CUPEL_INLINE MemoryFormat Tensor::suggest_memory_format(bool exact) const {
  MemoryFormat last = dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
  bool yes = cupel::shim::LooksChannelsLast(d()) && (!exact || is_contiguous(last));
  return yes ? last : MemoryFormat::Contiguous;
}

CUPEL_INLINE Tensor Tensor::view(IntArrayRef size) const {
  Geometry g = cupel::shim::InferSize(size, numel());
  g.offset = d().offset;
  if (!cupel::shim::ViewStrides(d(), numel(), g))
    Throw<c10::Error>(Text() << "view size is not compatible with input tensor's size and stride "
                                "(at least one dimension spans across two contiguous subspaces). "
                                "Use .reshape(...) instead.");
  return View(g);
}
CUPEL_INLINE Tensor Tensor::view(ScalarType dtype) const {
  cupel::shim::CheckStorable(dtype);
  int64_t from = element_size(), to = static_cast<int64_t>(elementSize(dtype));
  Geometry g = AsGeometry();
  if (from != to) {
    int last = g.ndim - 1;
    if (last < 0 || g.strides[last] != 1)
      Throw<c10::Error>(Text() << "self.stride(-1) must be 1 to view " << toString(scalar_type())
                               << " as " << toString(dtype) << " (different element sizes)");
    int64_t ratio = std::max(from, to) / std::min(from, to);
    auto scale = [&](int64_t& value) {
      if (to > from && value % ratio)
        Throw<c10::Error>(
            Text() << "self.size(-1), strides and storage_offset must be divisible by " << ratio
                   << " to view " << toString(scalar_type()) << " as " << toString(dtype)
                   << " (different element sizes)");
      value = to > from ? value / ratio : value * ratio;
    };
    scale(g.sizes[last]);
    scale(g.offset);
    for (int i = 0; i < last; ++i) scale(g.strides[i]);
  }
  Tensor result = View(g);
  result.impl_->d.dtype = static_cast<int32_t>(dtype);
  return result;
}
CUPEL_INLINE Tensor Tensor::reshape(IntArrayRef shape) const {
  Geometry g = cupel::shim::InferSize(shape, numel());
  g.offset = d().offset;
  if (cupel::shim::ViewStrides(d(), numel(), g)) return View(g);
  return clone(MemoryFormat::Contiguous).view(IntArrayRef(g.sizes, static_cast<size_t>(g.ndim)));
}
CUPEL_INLINE Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  int first = WrapDim(start_dim, dim()), last = WrapDim(end_dim, dim());
  if (first > last)
    Throw<c10::Error>(Text() << "flatten() has invalid args: start_dim cannot come after end_dim");
  if (dim() == 0) return reshape({1});
  if (first == last) return *this;
  std::vector<int64_t> shape;
  int64_t product = 1;
  for (int i = 0; i < d().ndim; ++i) {
    if (i >= first && i <= last) product *= d().sizes[i];
    if (i < first || i > last) shape.push_back(d().sizes[i]);
    if (i == last) shape.push_back(product);
  }
  return reshape(shape);
}
CUPEL_INLINE Tensor Tensor::unflatten(int64_t dim_, IntArrayRef sizes_) const {
  int at = WrapDim(dim_, dim());
  if (sizes_.empty()) Throw<c10::Error>(Text() << "unflatten: sizes must be non-empty");
  std::vector<int64_t> shape(sizes().begin(), sizes().begin() + at);
  int64_t known = 1, unknown = 0;
  for (int64_t s : sizes_) s == -1 ? void(++unknown) : void(known *= s);
  int64_t have = size(at);
  if (unknown > 1) Throw<c10::Error>(Text() << "only one dimension can be inferred");
  if (unknown ? (known <= 0 || have % known) : known != have)
    Throw<c10::Error>(Text() << "unflatten: Provided sizes " << Sizes(sizes_)
                             << " don't multiply up to the size of dim " << at << " (" << have
                             << ") in the input tensor");
  for (int64_t s : sizes_) shape.push_back(s == -1 ? have / known : s);
  shape.insert(shape.end(), sizes().begin() + at + 1, sizes().end());
  return view(shape);
}
CUPEL_INLINE Tensor Tensor::squeeze() const {
  Geometry g;
  g.offset = d().offset;
  for (int i = 0; i < d().ndim; ++i)
    if (d().sizes[i] != 1) g.Add(d().sizes[i], d().strides[i]);
  return View(g);
}
CUPEL_INLINE Tensor Tensor::squeeze(int64_t dim_) const { return squeeze(IntArrayRef(dim_)); }
CUPEL_INLINE Tensor Tensor::squeeze(IntArrayRef dims) const {
  bool squeezed[CUPEL_MAX_DIMS] = {};
  for (int64_t i : dims) squeezed[WrapDim(i, dim())] = true;
  Geometry g;
  g.offset = d().offset;
  for (int i = 0; i < d().ndim; ++i)
    if (!squeezed[i] || d().sizes[i] != 1) g.Add(d().sizes[i], d().strides[i]);
  return View(g);
}
CUPEL_INLINE Tensor Tensor::unsqueeze(int64_t dim_) const {
  cupel::shim::CheckDims(static_cast<size_t>(dim()) + 1);
  int at = WrapDim(dim_, dim() + 1);
  Geometry g;
  g.offset = d().offset;
  for (int i = 0; i <= d().ndim; ++i) {
    if (i == at) g.Add(1, at == d().ndim ? 1 : d().sizes[at] * d().strides[at]);
    if (i < d().ndim) g.Add(d().sizes[i], d().strides[i]);
  }
  return View(g);
}
CUPEL_INLINE Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  int a = WrapDim(dim0, dim()), b = WrapDim(dim1, dim());
  Geometry g = AsGeometry();
  std::swap(g.sizes[a], g.sizes[b]);
  std::swap(g.strides[a], g.strides[b]);
  return View(g);
}
CUPEL_INLINE Tensor Tensor::t() const {
  if (dim() > 2)
    Throw<c10::Error>(Text() << "t() expects a tensor with <= 2 dimensions, but self is " << dim()
                             << "D");
  return transpose(0, dim() < 2 ? 0 : 1);
}
CUPEL_INLINE Tensor Tensor::mT() const {
  if (dim() < 2)
    Throw<c10::Error>(Text() << "tensor.mT is only supported on matrices or batches of matrices. "
                                "Got "
                             << dim() << "-D tensor.");
  return transpose(-2, -1);
}
CUPEL_INLINE Tensor Tensor::numpy_T() const {
  std::vector<int64_t> dims;
  for (int64_t i = dim() - 1; i >= 0; --i) dims.push_back(i);
  return permute(dims);
}
CUPEL_INLINE Tensor Tensor::permute(IntArrayRef dims) const {
  if (static_cast<int64_t>(dims.size()) != dim())
    Throw<c10::Error>(Text() << "permute(sparse_coo): number of dimensions in the tensor input "
                                "does not match the length of the desired ordering of dimensions "
                                "i.e. input.dim() = "
                             << dim() << " is not equal to len(dims) = " << dims.size());
  Geometry g;
  g.offset = d().offset;
  bool seen[CUPEL_MAX_DIMS] = {};
  for (int64_t i : dims) {
    int at = WrapDim(i, dim());
    if (seen[at]) Throw<c10::Error>(Text() << "permute(): duplicate dims are not allowed.");
    seen[at] = true;
    g.Add(d().sizes[at], d().strides[at]);
  }
  return View(g);
}
CUPEL_INLINE Tensor Tensor::movedim(IntArrayRef source, IntArrayRef destination) const {
  if (source.size() != destination.size())
    Throw<c10::Error>(Text() << "movedim: Invalid source or destination dims: source ("
                             << Sizes(source)
                             << " dims) should contain the same number of dims as "
                                "destination ("
                             << Sizes(destination) << " dims)");
  std::vector<int64_t> order(static_cast<size_t>(dim()), -1);
  bool used[CUPEL_MAX_DIMS] = {};
  for (size_t k = 0; k < source.size(); ++k) {
    int from = WrapDim(source[k], dim()), to = WrapDim(destination[k], dim());
    if (used[from])
      Throw<c10::Error>(Text() << "movedim: repeated dim in `source` (" << Sizes(source) << ")");
    if (dim() && order[static_cast<size_t>(to)] >= 0)
      Throw<c10::Error>(Text() << "movedim: repeated dim in `destination` (" << Sizes(destination)
                               << ")");
    used[from] = true;
    if (dim()) order[static_cast<size_t>(to)] = from;
  }
  int next = 0;
  for (int64_t& from : order) {
    if (from >= 0) continue;
    while (used[next]) ++next;
    from = next++;
  }
  return permute(order);
}
CUPEL_INLINE Tensor Tensor::movedim(int64_t source, int64_t destination) const {
  return movedim(IntArrayRef(source), IntArrayRef(destination));
}
CUPEL_INLINE Tensor Tensor::narrow(int64_t dim_, int64_t start, int64_t length) const {
  if (dim() == 0) Throw<c10::Error>(Text() << "narrow() cannot be applied to a 0-dim tensor.");
  if (length < 0) Throw<c10::Error>(Text() << "narrow(): length must be non-negative.");
  int64_t have = size(dim_);
  if (start < -have || start > have)
    Throw<c10::IndexError>(Text() << "Dimension out of range (expected to be in range of [" << -have
                                  << ", " << have << "], but got " << start << ")");
  if (start < 0) start += have;
  if (start > have - length)
    Throw<c10::Error>(Text() << "start (" << start << ") + length (" << length
                             << ") exceeds dimension size (" << have << ").");
  return slice(dim_, start, start + length, 1);
}
CUPEL_INLINE Tensor Tensor::select(int64_t dim_, int64_t index) const {
  if (dim() == 0) Throw<c10::IndexError>(Text() << "select() cannot be applied to a 0-dim tensor.");
  int at = WrapDim(dim_, dim());
  int64_t have = d().sizes[at];
  if (index < -have || index >= have)
    Throw<c10::IndexError>(Text() << "select(): index " << index
                                  << " out of range for tensor of size " << Sizes(sizes())
                                  << " at dimension " << at);
  if (index < 0) index += have;
  Geometry g;
  g.offset = d().offset + index * d().strides[at];
  for (int i = 0; i < d().ndim; ++i)
    if (i != at) g.Add(d().sizes[i], d().strides[i]);
  return View(g);
}
CUPEL_INLINE Tensor Tensor::slice(int64_t dim_, optional<int64_t> from, optional<int64_t> to,
                                  int64_t step) const {
  if (dim() == 0) Throw<c10::Error>(Text() << "slice() cannot be applied to a 0-dim tensor.");
  int at = WrapDim(dim_, dim());
  if (step <= 0) Throw<c10::Error>(Text() << "slice step must be positive");
  int64_t have = d().sizes[at];
  auto clamp = [&](int64_t value, int64_t low) {
    if (value < 0) value += have;
    return std::min(std::max(value, low), have);
  };
  int64_t start = clamp(from.value_or(0), 0);
  int64_t end = clamp(to.value_or(std::numeric_limits<int64_t>::max()), start);
  Geometry g = AsGeometry();
  g.offset += start * g.strides[at];
  g.sizes[at] = (end - start + step - 1) / step;
  g.strides[at] *= step;
  return View(g);
}
CUPEL_INLINE Tensor Tensor::expand(IntArrayRef size, bool) const {
  int64_t more = static_cast<int64_t>(size.size()) - dim();
  if (more < 0)
    Throw<c10::Error>(Text() << "expand(" << toString(scalar_type()) << "{" << Sizes(sizes())
                             << "}, size=" << Sizes(size) << "): the number of sizes provided ("
                             << size.size()
                             << ") must be greater or equal to the number of dimensions in the "
                                "tensor ("
                             << dim() << ")");
  Geometry g = cupel::shim::Contiguous(size);
  g.offset = d().offset;
  for (int i = g.ndim - 1; i >= 0; --i) {
    int own = i - static_cast<int>(more);
    int64_t have = own >= 0 ? d().sizes[own] : 1;
    int64_t stride = own >= 0 ? d().strides[own] : g.sizes[i + 1] * g.strides[i + 1];
    int64_t want = size[static_cast<size_t>(i)];
    if (want == -1 && own < 0)
      Throw<c10::Error>(
          Text() << "The expanded size of the tensor (-1) isn't allowed in a leading, "
                    "non-existing dimension "
                 << i);
    if (want == -1) want = have;
    if (want < 0)
      Throw<c10::Error>(Text() << "Trying to create tensor with negative dimension " << want << ": "
                               << Sizes(size));
    if (want != have) {
      if (have != 1)
        Throw<c10::Error>(Text() << "The expanded size of the tensor (" << want
                                 << ") must match the existing size (" << have
                                 << ") at non-singleton dimension " << i << ".  Target sizes: "
                                 << Sizes(size) << ".  Tensor sizes: " << Sizes(sizes()));
      stride = 0;
    }
    g.sizes[i] = want;
    g.strides[i] = stride;
  }
  return View(g);
}
CUPEL_INLINE Tensor Tensor::as_strided(IntArrayRef size, IntArrayRef stride,
                                       optional<int64_t> storage_offset_) const {
  if (size.size() != stride.size())
    Throw<c10::Error>(Text() << "mismatch in length of strides and shape");
  int64_t count = cupel::shim::CountElements(size);
  Geometry g = cupel::shim::Contiguous(size);
  g.offset = storage_offset_.value_or(d().offset);
  int64_t last = g.offset + 1;
  for (int i = 0; i < g.ndim; ++i) {
    g.strides[i] = stride[static_cast<size_t>(i)];
    if (g.strides[i] < 0)
      Throw<c10::Error>(Text() << "as_strided: Negative strides are not supported at the moment, "
                                  "got strides: "
                               << Sizes(stride));
    last += (g.sizes[i] - 1) * g.strides[i];
  }
  if (g.offset < 0) Throw<c10::Error>(Text() << "Tensor: invalid storage offset " << g.offset);
  uint64_t needed = count ? static_cast<uint64_t>(last) * itemsize() : 0;
  if (needed > d().storage_bytes)
    Throw<c10::Error>(Text() << "setStorage: sizes " << Sizes(size) << ", strides " << Sizes(stride)
                             << ", storage offset " << g.offset << ", and itemsize " << itemsize()
                             << " requiring a storage size of " << needed
                             << " are out of bounds for storage of size " << d().storage_bytes);
  return View(g);
}
CUPEL_INLINE std::vector<Tensor> Tensor::unbind(int64_t dim_) const {
  int at = WrapDim(dim_, dim());
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < size(at); ++i) parts.push_back(select(at, i));
  return parts;
}
CUPEL_INLINE std::vector<Tensor> Tensor::split(int64_t split_size, int64_t dim_) const {
  if (dim() == 0) Throw<c10::Error>(Text() << "split expects at least a 1-dimensional tensor");
  if (split_size < 0)
    Throw<c10::Error>(Text() << "split expects split_size be non-negative, but got split_size="
                             << split_size);
  int at = WrapDim(dim_, dim());
  int64_t have = size(at);
  if (split_size == 0 && have != 0)
    Throw<c10::Error>(
        Text() << "split_size can only be 0 if dimension size is 0, but got dimension "
                  "size of "
               << have);
  std::vector<Tensor> parts;
  int64_t start = 0;
  do {
    int64_t length = std::min(split_size, have - start);
    parts.push_back(narrow(at, start, length));
    start += split_size;
  } while (start < have);
  return parts;
}
CUPEL_INLINE std::vector<Tensor> Tensor::split_with_sizes(IntArrayRef split_sizes,
                                                          int64_t dim_) const {
  int at = WrapDim(dim_, dim());
  int64_t start = 0;
  std::vector<Tensor> parts;
  for (int64_t length : split_sizes) {
    if (length < 0)
      Throw<c10::Error>(Text() << "split_with_sizes expects split_sizes have only non-negative "
                                  "entries, but got split_sizes="
                               << Sizes(split_sizes));
    parts.push_back(slice(at, start, start + length));
    start += length;
  }
  if (start != size(at))
    Throw<c10::Error>(Text() << "split_with_sizes expects split_sizes to sum exactly to "
                             << size(at) << " (input tensor's size at dimension " << dim_
                             << "), but got split_sizes=" << Sizes(split_sizes));
  return parts;
}
CUPEL_INLINE std::vector<Tensor> Tensor::split(IntArrayRef split_sizes, int64_t dim_) const {
  return split_with_sizes(split_sizes, dim_);
}
CUPEL_INLINE std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim_) const {
  if (dim() == 0) Throw<c10::Error>(Text() << "chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0)
    Throw<c10::Error>(Text() << "chunk expects `chunks` to be greater than 0, got: " << chunks);
  int64_t have = size(dim_), each = (have + chunks - 1) / chunks;
  if (each == 0)
    return split_with_sizes(std::vector<int64_t>(static_cast<size_t>(chunks), 0), dim_);
  return split(each, dim_);
}

}  // namespace at
#endif  // CUPEL_BODIES
