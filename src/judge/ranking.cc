// SPDX-License-Identifier: Apache-2.0
#include "judge/ranking.h"

#include <cstring>
#include <optional>

namespace cupel::judge {
namespace {

/// Finds the label of the element that an index of the output names.
class Labels {
 public:
  Labels(const task::Ranking& ranking, const task::Output& want) : tensor_(ranking.labels) {
    const auto dim = static_cast<size_t>(ranking.dim);
    const std::vector<int64_t>& shape = tensor_.shape;
    ranked_ = shape[dim];
    if (want.shape.size() == shape.size()) of_row_ = want.shape[dim];
    for (size_t a = dim + 1; a < shape.size(); ++a) inner_ *= shape[a];
  }

  /// The position among the labels. Nullopt: there is no such element.
  std::optional<int64_t> At(int64_t element, int64_t index) const {
    if (index < 0 || index >= ranked_) return std::nullopt;
    const int64_t outer = element / (of_row_ * inner_);
    return (outer * ranked_ + index) * inner_ + element % inner_;
  }

  int32_t Of(int64_t position) const {
    int32_t label = 0;
    std::memcpy(&label,
                tensor_.storage.data() + (tensor_.offset + position) * SizeOf(tensor_.dtype),
                sizeof label);
    return label;
  }

  size_t count() const { return static_cast<size_t>(tensor_.numel()); }

 private:
  const task::Tensor& tensor_;
  int64_t ranked_ = 0, of_row_ = 1, inner_ = 1;
};

}  // namespace

std::vector<std::byte> WithIndicesOfTruth(const task::Tensor& got, int64_t first,
                                          const task::Output& want) {
  const Labels labels(*want.ranking, want);
  const auto size = static_cast<size_t>(SizeOf(got.dtype));
  const int64_t count = got.numel();
  const std::byte* begin = got.storage.data() + static_cast<size_t>(got.offset) * size;
  std::vector<std::byte> bytes(begin, begin + static_cast<size_t>(count) * size);
  std::vector<bool> is_named(labels.count());
  const auto index_of = [](const task::Tensor& tensor, int64_t element) {
    return static_cast<int64_t>(task::ElementAsDouble(tensor, element));
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = index_of(got, i);
    if (index != index_of(want.truth, first + i)) continue;
    if (const auto position = labels.At(first + i, index)) {
      is_named[static_cast<size_t>(*position)] = true;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = index_of(got, i), wanted = index_of(want.truth, first + i);
    if (index == wanted) continue;
    const auto position = labels.At(first + i, index), right = labels.At(first + i, wanted);
    if (!position || !right || labels.Of(*position) != labels.Of(*right)) continue;
    if (is_named[static_cast<size_t>(*position)]) continue;
    is_named[static_cast<size_t>(*position)] = true;
    std::memcpy(
        bytes.data() + static_cast<size_t>(i) * size,
        want.truth.storage.data() + static_cast<size_t>(want.truth.offset + first + i) * size,
        size);
  }
  return bytes;
}

}  // namespace cupel::judge
