// SPDX-License-Identifier: Apache-2.0
#include "task/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/result.h"

namespace cupel::task {

int64_t Tensor::numel() const {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

bool Tensor::IsContiguous() const {
  int64_t expected = 1;
  if (numel() == 0) return true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;  // PyTorch ignores the stride of such a dimension too
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string Tensor::Describe() const {
  return fmt::format("{}[{}]", Name(dtype), fmt::join(shape, ", "));
}

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * (shape[i] > 0 ? shape[i] : 1);
  }
  return strides;
}

std::vector<int64_t> IndexOf(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; element /= shape[axis]) {
    index[axis] = element % shape[axis];
  }
  return index;
}

bool HostMayRead(const Tensor& tensor) {
  constexpr int64_t kMostIntegers = 1024;
  if (!FitsStorage(tensor)) return false;
  if (tensor.numel() == 1) return true;
  return !IsFloating(tensor.dtype) && tensor.numel() > 0 && tensor.numel() <= kMostIntegers &&
         tensor.IsContiguous();
}

bool FitsStorage(const Tensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) return false;
  if (tensor.shape.size() > static_cast<size_t>(kMaxDims) || tensor.offset < 0) return false;
  bool empty = false;
  int64_t last = tensor.offset;
  int64_t count = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const int64_t size = tensor.shape[i];
    const int64_t stride = tensor.strides[i];
    if (size < 0 || stride < 0) return false;
    if (size == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    if (__builtin_mul_overflow(size - 1, stride, &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
    // With a zero stride there can be more elements than bytes, so numel() could also overflow.
    if (__builtin_mul_overflow(count, size, &count)) return false;
  }
  if (empty) return true;
  const auto elements = static_cast<int64_t>(tensor.storage.size()) / SizeOf(tensor.dtype);
  return last < elements;
}

double ElementAsDouble(const Tensor& tensor, int64_t index) {
  int64_t place = tensor.offset;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    place += index % tensor.shape[i] * tensor.strides[i];
    index /= tensor.shape[i];
  }
  return LoadAsDouble(tensor.dtype, tensor.storage.data(), place);
}

namespace {

void Collect(const std::vector<Value>& values, std::vector<const Tensor*>& leaves) {
  for (const Value& value : values) {
    if (const Tensor* tensor = value.AsTensor()) leaves.push_back(tensor);
    if (const auto* items = std::get_if<std::vector<Value>>(&value.data)) Collect(*items, leaves);
  }
}

}  // namespace

std::vector<const Tensor*> TensorLeaves(const std::vector<Value>& args) {
  std::vector<const Tensor*> leaves;
  Collect(args, leaves);
  return leaves;
}

std::vector<std::span<const std::byte>> StoragesOf(const std::vector<Value>& args) {
  std::vector<std::span<const std::byte>> storages;
  for (const Tensor* tensor : TensorLeaves(args)) storages.push_back(tensor->storage);
  return storages;
}

std::vector<DType> TypesOf(const std::vector<Value>& args) {
  std::vector<DType> types;
  for (const Tensor* tensor : TensorLeaves(args)) types.push_back(tensor->dtype);
  return types;
}

}  // namespace cupel::task
