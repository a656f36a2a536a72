// The tensors and argument values of a call of a task's function. Layout only, no arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace cupel::task {

inline constexpr int kMaxDims = 16;

/// A strided view of a storage. Strides and offset are in elements, as in PyTorch.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  /// All bytes of the storage. Borrowed: the Case (or other creator) must keep them alive.
  std::span<const std::byte> storage;

  int64_t numel() const;
  bool IsContiguous() const;
  /// "float32[64, 128]".
  std::string Describe() const;
};

/// Row-major strides of `shape`.
std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& shape);
/// The index of an element of a tensor of this shape, by its row-major number.
std::vector<int64_t> IndexOf(int64_t element, const std::vector<int64_t>& shape);

/// True when every element of the view is inside its storage (checked without overflow).
bool FitsStorage(const Tensor& tensor);

/// True if host code may read the tensor's values: it has one element, or at most 1024 integers
/// (lengths, offsets) that lie beside each other. What it requests may then depend on them.
bool HostMayRead(const Tensor& tensor);

/// Element `index` (row-major order of the view) as double.
double ElementAsDouble(const Tensor& tensor, int64_t index);

struct None {
  bool operator==(const None&) const = default;
};

/// One positional argument of the task's function: None, a number, a string, a tensor or a tuple.
struct Value {
  std::variant<None, bool, int64_t, double, std::string, Tensor, std::vector<Value>> data;

  bool IsTensor() const { return std::holds_alternative<Tensor>(data); }
  const Tensor* AsTensor() const { return std::get_if<Tensor>(&data); }
};

/// The tensors of an argument list in depth-first order. A plan names argument storages by the
/// index in this list.
std::vector<const Tensor*> TensorLeaves(const std::vector<Value>& args);
/// The storages of TensorLeaves(args), in the form that engines take. Borrowed.
std::vector<std::span<const std::byte>> StoragesOf(const std::vector<Value>& args);
/// Their types, in the same order.
std::vector<DType> TypesOf(const std::vector<Value>& args);

}  // namespace cupel::task
