// SPDX-License-Identifier: Apache-2.0
#include "assay/secret.h"

#include <cmath>
#include <cstring>
#include <optional>

namespace cupel::assay {
namespace {

constexpr int kLooks = 16;
constexpr int64_t kLarge = 256;  // elements
constexpr int kChangesOfLarge = 4;
constexpr size_t kMostChanges = 48;

/// Position in the storage, in elements, of a random element of the view.
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

/// Returns nothing if all sampled elements are equal.
std::optional<engine::Change> DrawChange(const task::Tensor& tensor, int argument, Random& random) {
  const int64_t target = DrawPlace(tensor, random);
  const double old = ValueAt(tensor, target);
  int64_t source = target;
  double farthest = 0;
  for (int look = 0; look < kLooks; ++look) {
    const int64_t place = DrawPlace(tensor, random);
    const double distance = std::fabs(ValueAt(tensor, place) - old);
    if (!(distance > farthest)) continue;
    farthest = distance;
    source = place;
  }
  if (farthest == 0) return std::nullopt;
  const auto bytes = static_cast<uint64_t>(SizeOf(tensor.dtype));
  engine::Change change;
  change.argument = argument;
  change.offset = static_cast<uint64_t>(target) * bytes;
  change.bytes.resize(bytes);
  std::memcpy(change.bytes.data(), tensor.storage.data() + static_cast<uint64_t>(source) * bytes,
              bytes);
  return change;
}

}  // namespace

std::vector<engine::Change> DrawSecrets(const task::Case& wanted, Random& random) {
  const std::vector<const task::Tensor*> leaves = task::TensorLeaves(wanted.args);
  std::vector<engine::Change> changes;
  for (size_t i = 0; i < leaves.size(); ++i) {
    // The recorder treats one-element tensors as scalars, so the plan depends on them.
    if (!IsFloating(leaves[i]->dtype) || leaves[i]->numel() < 2) continue;
    const int wanted_here = leaves[i]->numel() >= kLarge ? kChangesOfLarge : 1;
    for (int k = 0; k < wanted_here; ++k) {
      auto change = DrawChange(*leaves[i], static_cast<int>(i), random);
      if (change && changes.size() < kMostChanges) changes.push_back(std::move(*change));
    }
  }
  return changes;
}

std::optional<engine::Change> DrawNan(const task::Case& wanted, Random& random) {
  std::vector<const task::Tensor*> leaves = task::TensorLeaves(wanted.args);
  const task::Tensor nothing{DType::kF32, {0}, {1}, 0, {}};
  for (const task::Output& output : wanted.outputs) {
    if (output.argument >= 0) leaves[static_cast<size_t>(output.argument)] = &nothing;
  }
  uint64_t all = 0;
  for (const task::Tensor* tensor : leaves) {
    if (tensor->numel() < 2) continue;
    if (!IsFloating(tensor->dtype)) return std::nullopt;
    all += static_cast<uint64_t>(tensor->numel());
  }
  if (all == 0) return std::nullopt;
  uint64_t place = random.Below(all);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const task::Tensor& tensor = *leaves[i];
    const auto count = static_cast<uint64_t>(tensor.numel());
    if (count < 2) continue;
    if (place >= count) {
      place -= count;
      continue;
    }
    const auto bytes = static_cast<uint64_t>(SizeOf(tensor.dtype));
    engine::Change change;
    change.argument = static_cast<int>(i);
    change.offset = static_cast<uint64_t>(DrawPlace(tensor, random)) * bytes;
    // All bits set are a NaN in every floating-point format.
    change.bytes.assign(bytes, '\xff');
    return change;
  }
  return std::nullopt;
}

ChangedArguments::ChangedArguments(const task::Case& wanted)
    : storages_(task::StoragesOf(wanted.args)) {}

const std::vector<std::span<const std::byte>>& ChangedArguments::Change(
    const std::vector<engine::Change>& changes) {
  // Undo in reverse order: two changes may be of the same element.
  for (; !back_.empty(); back_.pop_back()) Exchange(back_.back());
  for (const engine::Change& change : changes) {
    back_.push_back({change.argument, change.offset, Exchange(change)});
  }
  return storages_;
}

std::string ChangedArguments::Exchange(const engine::Change& change) {
  const auto index = static_cast<size_t>(change.argument);
  auto [copy, is_new] = copies_.try_emplace(index);
  if (is_new) {
    copy->second.assign(storages_[index].begin(), storages_[index].end());
    storages_[index] = copy->second;
  }
  std::string before(change.bytes.size(), '\0');
  std::byte* place = copy->second.data() + change.offset;
  std::memcpy(before.data(), place, before.size());
  std::memcpy(place, change.bytes.data(), change.bytes.size());
  return before;
}

}  // namespace cupel::assay
