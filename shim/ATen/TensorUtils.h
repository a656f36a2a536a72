// Checks of tensor arguments that name the argument and its position in their messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/core/Tensor.h"

namespace at {

/// An argument: its tensor, its name, and its position from 1.
struct TensorArg {
  const Tensor& tensor;
  const char* name;
  int pos;
  TensorArg(const Tensor& tensor, const char* name, int pos)
      : tensor(tensor), name(name), pos(pos) {}
  TensorArg(Tensor&&, const char*, int) = delete;
  const Tensor* operator->() const { return &tensor; }
  const Tensor& operator*() const { return tensor; }
};
inline void AppendText(cupel::shim::Text& text, const TensorArg& arg) {
  text << "argument #" << arg.pos << " '" << arg.name << "'";
}

using CheckedFrom = const char*;  // the function that checks, for messages

inline void checkDim(CheckedFrom from, const TensorArg& t, int64_t dim) {
  TORCH_CHECK(t->dim() == dim, "Expected ", dim, "-dimensional tensor, but got ", t->dim(),
              "-dimensional tensor for ", t, " (while checking arguments for ", from, ")");
}
inline void checkDimRange(CheckedFrom from, const TensorArg& t, int64_t begin, int64_t end) {
  TORCH_CHECK(t->dim() >= begin && t->dim() < end, "Expected ", begin, " to ", end - 1,
              " dimensions, but got ", t->dim(), "-dimensional tensor for ", t,
              " (while checking arguments for ", from, ")");
}
inline void checkContiguous(CheckedFrom from, const TensorArg& t) {
  TORCH_CHECK(t->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ",
              t, " (while checking arguments for ", from, ")");
}
inline void checkDefined(CheckedFrom from, const TensorArg& t) {
  TORCH_CHECK(t->defined(), "Expected tensor for ", t,
              " to be non-null, but it was undefined (while checking arguments for ", from, ")");
}
inline void checkNumel(CheckedFrom from, const TensorArg& t, int64_t numel) {
  TORCH_CHECK(t->numel() == numel, "Expected tensor for ", t, " to have ", numel,
              " elements; but it actually has ", t->numel(),
              " elements (while checking arguments for ", from, ")");
}
inline void checkSize(CheckedFrom from, const TensorArg& t, IntArrayRef sizes) {
  checkDim(from, t, static_cast<int64_t>(sizes.size()));
  TORCH_CHECK(t->sizes() == sizes, "Expected tensor of size ", sizes, ", but got tensor of size ",
              t->sizes(), " for ", t, " (while checking arguments for ", from, ")");
}
inline void checkSize(CheckedFrom from, const TensorArg& t, int64_t dim, int64_t size) {
  TORCH_CHECK(t->size(dim) == size, "Expected tensor to have size ", size, " at dimension ", dim,
              ", but got size ", t->size(dim), " for ", t, " (while checking arguments for ", from,
              ")");
}
inline void checkScalarType(CheckedFrom from, const TensorArg& t, ScalarType type) {
  TORCH_CHECK(t->scalar_type() == type, "Expected tensor for ", t, " to have scalar type ", type,
              "; but got ", t->scalar_type(), " instead (while checking arguments for ", from, ")");
}
inline void checkScalarTypes(CheckedFrom from, const TensorArg& t, ArrayRef<ScalarType> types) {
  const bool known = std::find(types.begin(), types.end(), t->scalar_type()) != types.end();
  TORCH_CHECK(known, "Expected tensor for ", t, " to have another scalar type; but got ",
              t->scalar_type(), " instead (while checking arguments for ", from, ")");
}

#define CUPEL_CHECK_SAME(Name, condition, what)                                                    \
  inline void checkSame##Name(CheckedFrom from, const TensorArg& a, const TensorArg& b) {          \
    TORCH_CHECK(condition, "Expected tensor for ", a, " to have the same " what " as tensor for ", \
                b, " (while checking arguments for ", from, ")");                                  \
  }                                                                                                \
  inline void checkAllSame##Name(CheckedFrom from, ArrayRef<TensorArg> tensors) {                  \
    const TensorArg* first = nullptr;                                                              \
    for (const TensorArg& t : tensors) {                                                           \
      if (!t->defined()) continue;                                                                 \
      if (first != nullptr) checkSame##Name(from, *first, t);                                      \
      if (first == nullptr) first = &t;                                                            \
    }                                                                                              \
  }
CUPEL_CHECK_SAME(Dim, a->dim() == b->dim(), "dimension")
CUPEL_CHECK_SAME(Size, a->sizes() == b->sizes(), "size")
CUPEL_CHECK_SAME(Numel, a->numel() == b->numel(), "number of elements")
CUPEL_CHECK_SAME(Type, a->scalar_type() == b->scalar_type(), "type")
CUPEL_CHECK_SAME(GPU, a->is_cuda() && b->is_cuda(), "device; but one is not on the GPU, or not the")
#undef CUPEL_CHECK_SAME

inline void checkAllContiguous(CheckedFrom from, ArrayRef<TensorArg> tensors) {
  for (const TensorArg& t : tensors) {
    if (t->defined()) checkContiguous(from, t);
  }
}
inline void checkAllDefined(CheckedFrom from, ArrayRef<TensorArg> tensors) {
  for (const TensorArg& t : tensors) checkDefined(from, t);
}

}  // namespace at
