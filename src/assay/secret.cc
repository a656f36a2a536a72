// SPDX-License-Identifier: Apache-2.0
#include "assay/secret.h"

#include <cmath>
#include <cstring>

namespace cupel::assay {
namespace {

constexpr int kLooks = 64;

/// Place in the storage, in elements, of an element of the view drawn at random.
int64_t DrawPlace(const task::Tensor& tensor, Random& random) {
  int64_t place = tensor.offset;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const auto index = static_cast<int64_t>(random.Below(static_cast<uint64_t>(tensor.shape[d])));
    place += index * tensor.strides[d];
  }
  return place;
}

double ValueAt(const task::Tensor& tensor, int64_t place) {
  task::Tensor element;
  element.dtype = tensor.dtype;
  element.offset = place;
  element.storage = tensor.storage;
  return task::ElementAsDouble(element, 0);
}

}  // namespace

std::optional<engine::Change> DrawSecret(const task::Case& wanted, Random& random) {
  const std::vector<const task::Tensor*> leaves = task::TensorLeaves(wanted.args);
  std::vector<size_t> usable;
  for (size_t i = 0; i < leaves.size(); ++i) {
    // One-element tensors are scalars to the recorder: the plan knows them.
    if (IsFloating(leaves[i]->dtype) && leaves[i]->numel() > 1) usable.push_back(i);
  }
  if (usable.empty()) return std::nullopt;
  const size_t which = usable[random.Below(usable.size())];
  const task::Tensor& tensor = *leaves[which];
  const int64_t target = DrawPlace(tensor, random);
  int64_t source = target;
  double largest = -1;
  for (int look = 0; look < kLooks; ++look) {
    const int64_t place = DrawPlace(tensor, random);
    const double size = std::fabs(ValueAt(tensor, place));
    if (place == target || !(size > largest)) continue;
    largest = size;
    source = place;
  }
  const auto bytes = static_cast<uint64_t>(SizeOf(tensor.dtype));
  engine::Change change;
  change.argument = static_cast<int>(which);
  change.offset = static_cast<uint64_t>(target) * bytes;
  change.bytes.resize(bytes);
  std::memcpy(change.bytes.data(), tensor.storage.data() + static_cast<uint64_t>(source) * bytes,
              bytes);
  return change;
}

ChangedArguments::ChangedArguments(const task::Case& wanted,
                                   const std::vector<engine::Change>& changes) {
  for (const task::Tensor* tensor : task::TensorLeaves(wanted.args)) {
    storages_.push_back(tensor->storage);
  }
  for (const engine::Change& change : changes) {
    auto& storage = storages_[static_cast<size_t>(change.argument)];
    copies_.emplace_back(storage.begin(), storage.end());
    std::memcpy(copies_.back().data() + change.offset, change.bytes.data(), change.bytes.size());
    storage = copies_.back();
  }
}

}  // namespace cupel::assay
