// Tensor::index and index_put_. Integers, slices, None and "..." make views; tensors as indices
// are PyTorch's operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/operators.h"

namespace at::indexing {

struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis;
inline constexpr nullopt_t None = nullopt;

struct Slice {
  Slice(optional<int64_t> start = nullopt, optional<int64_t> stop = nullopt,
        optional<int64_t> step = nullopt)
      : start(start), stop(stop), step(step.value_or(1)) {}
  optional<int64_t> start, stop;
  int64_t step;
};

using TensorIndices = std::vector<optional<Tensor>>;

/// One index. Only code that makes one from a tensor refers to operators, so that candidates with
/// other indices do not count as using them.
class TensorIndex {
 public:
  TensorIndex(nullopt_t) : kind_(kNone) {}
  TensorIndex(EllipsisIndexType) : kind_(kEllipsis) {}
  TensorIndex(const char* text) : kind_(kEllipsis) {
    TORCH_CHECK_VALUE(std::strcmp(text, "...") == 0,
                      "Expected \"...\" to represent an ellipsis index, "
                      "but got \"",
                      text, "\"");
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  TensorIndex(T value) : kind_(kInteger), integer_(static_cast<int64_t>(value)) {}
  TensorIndex(Slice slice) : kind_(kSlice), slice_(slice) {}
  TensorIndex(const Tensor& tensor)
      : kind_(kTensor), tensor_(tensor), get_(GetElements), put_(PutElements) {}

 private:
  friend struct View;
  enum Kind { kNone, kEllipsis, kInteger, kSlice, kTensor };
  using Get = Tensor (*)(const Tensor& self, const TensorIndices& indices);
  using Put = void (*)(const Tensor& self, const TensorIndices& indices, const Tensor& values);
  static Tensor GetElements(const Tensor& self, const TensorIndices& indices) {
    return cupel::shim::CallOperator<Tensor>("aten::index.Tensor", self,
                                             ArrayRef<optional<Tensor>>(indices));
  }
  static void PutElements(const Tensor& self, const TensorIndices& indices, const Tensor& values) {
    cupel::shim::CallOperator<Tensor>("aten::index_put_", self, ArrayRef<optional<Tensor>>(indices),
                                      values, false);
  }
  Kind kind_;
  int64_t integer_ = 0;
  Slice slice_;
  Tensor tensor_;
  Get get_ = nullptr;
  Put put_ = nullptr;
};

/// What a list of indices selects: a view, and elements of it if there are tensors.
struct View {
  View(const Tensor& from, ArrayRef<TensorIndex> indices) : self(from.alias()) {
    int64_t named = 0, dim = 0;
    for (const TensorIndex& i : indices) named += i.kind_ >= TensorIndex::kInteger;
    TORCH_CHECK_INDEX(named <= self.dim(), "too many indices for tensor of dimension ", self.dim());
    const int64_t skipped = self.dim() - named;
    for (const TensorIndex& i : indices) {
      if (i.kind_ == TensorIndex::kNone) {
        self = self.unsqueeze(dim++);
      } else if (i.kind_ == TensorIndex::kEllipsis) {
        dim += skipped;
      } else if (i.kind_ == TensorIndex::kInteger) {
        self = self.select(dim, i.integer_);
      } else if (i.kind_ == TensorIndex::kSlice) {
        self = self.slice(dim++, i.slice_.start, i.slice_.stop, i.slice_.step);
      } else {
        tensors.resize(static_cast<size_t>(dim));
        tensors.push_back(i.tensor_);
        get = i.get_;
        put = i.put_;
        ++dim;
      }
    }
  }
  Tensor self;
  TensorIndices tensors;
  TensorIndex::Get get = nullptr;
  TensorIndex::Put put = nullptr;
};

}  // namespace at::indexing

namespace at {

inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
  const indexing::View view(*this, indices);
  return view.get != nullptr ? view.get(view.self, view.tensors) : view.self;
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) {
  const indexing::View view(*this, indices);
  if (view.put != nullptr) {
    view.put(view.self, view.tensors, values);
  } else {
    Tensor source = values;  // its leading dimensions of one element may be more than the view has
    while (source.dim() > view.self.dim() && source.size(0) == 1) source = source.select(0, 0);
    view.self.copy_(source);
  }
  return *this;
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices,
                                  const Tensor& values) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), values);
}
inline Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) {
  const indexing::View view(*this, indices);
  if (view.put != nullptr) {
    view.put(view.self, view.tensors, at::full({}, value, options()));
  } else {
    view.self.fill_(value);
  }
  return *this;
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices,
                                  const Scalar& value) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}

}  // namespace at
