// SPDX-License-Identifier: Apache-2.0
#include "task/shape_family.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace cupel::task {
namespace {

/// Appends the integers of a value, and what must not vary (its structure, types, other numbers) to
/// `rest`.
void Flatten(const Value& value, std::vector<int64_t>& numbers, std::string& rest) {
  rest += static_cast<char>('a' + value.data.index());
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    numbers.push_back(*number);
  } else if (const auto* flag = std::get_if<bool>(&value.data)) {
    rest += *flag ? '1' : '0';
  } else if (const auto* real = std::get_if<double>(&value.data)) {
    rest.append(reinterpret_cast<const char*>(real), sizeof *real);
  } else if (const auto* text = std::get_if<std::string>(&value.data)) {
    rest += *text + '\0';
  } else if (const auto* items = std::get_if<std::vector<Value>>(&value.data)) {
    rest += std::to_string(items->size()) + ";";
    for (const Value& item : *items) Flatten(item, numbers, rest);
  } else if (const auto* tensor = std::get_if<Tensor>(&value.data)) {
    rest += std::to_string(static_cast<int>(tensor->dtype)) + "," +
            std::to_string(tensor->shape.size()) + ";";
    numbers.insert(numbers.end(), tensor->shape.begin(), tensor->shape.end());
    numbers.insert(numbers.end(), tensor->strides.begin(), tensor->strides.end());
    numbers.push_back(tensor->offset);
    numbers.push_back(static_cast<int64_t>(tensor->storage.size()));
  }
}

/// The reverse: takes the integers of a value from the front of `numbers`. False if a storage does
/// not fit.
bool Fill(Value& value, std::span<const int64_t>& numbers, std::span<const std::byte> zeros) {
  const auto take = [&] {
    const int64_t number = numbers.front();
    numbers = numbers.subspan(1);
    return number;
  };
  if (auto* number = std::get_if<int64_t>(&value.data)) {
    *number = take();
  } else if (auto* items = std::get_if<std::vector<Value>>(&value.data)) {
    return std::all_of(items->begin(), items->end(),
                       [&](Value& item) { return Fill(item, numbers, zeros); });
  } else if (auto* tensor = std::get_if<Tensor>(&value.data)) {
    for (int64_t& extent : tensor->shape) extent = take();
    for (int64_t& stride : tensor->strides) stride = take();
    tensor->offset = take();
    const int64_t bytes = take();
    if (bytes < 0 || static_cast<uint64_t>(bytes) > zeros.size()) return false;
    tensor->storage = zeros.first(static_cast<size_t>(bytes));
    return FitsStorage(*tensor);
  }
  return true;
}

/// The polynomial through three points, at `x`; nullopt if the value is no integer of 64 bits.
std::optional<int64_t> Interpolate(const std::array<int64_t, 3>& xs,
                                   const std::array<int64_t, 3>& ys, int64_t x) {
  using Wide = __int128;
  if (ys[0] == ys[1] && ys[1] == ys[2]) return ys[0];
  // Newton's form, with all terms over the common denominator.
  const Wide x0 = xs[0], x1 = xs[1], x2 = xs[2], at = x;
  const Wide d01 = x1 - x0, d12 = x2 - x1, d02 = x2 - x0;
  const Wide denominator = d01 * d12 * d02;
  const Wide slope = (static_cast<Wide>(ys[1]) - ys[0]) * d12 * d02;
  const Wide bend =
      (static_cast<Wide>(ys[2]) - ys[1]) * d01 - (static_cast<Wide>(ys[1]) - ys[0]) * d12;
  const Wide sum = slope * (at - x0) + bend * (at - x0) * (at - x1);
  if (sum % denominator != 0) return std::nullopt;
  const Wide value = ys[0] + sum / denominator;
  if (value > INT64_MAX || value < INT64_MIN) return std::nullopt;
  return static_cast<int64_t>(value);
}

/// Sizes for which the products above cannot overflow.
constexpr int64_t kMostSize = int64_t{1} << 31;
constexpr int64_t kMostNumber = int64_t{1} << 46;

}  // namespace

std::optional<ShapeFamily> ShapeFamily::Fit(std::span<const Point> points) {
  if (points.size() < 4) return std::nullopt;
  ShapeFamily family;
  family.like_ = *points[0].second;
  std::string first;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [size, call] = points[i];
    std::vector<int64_t> numbers;
    std::string rest;
    for (const Value& value : call->args) Flatten(value, numbers, rest);
    if (i == 0) first = rest;
    if (rest != first || size < 0 || size > kMostSize) return std::nullopt;
    if (i < 3) {
      const bool repeated = std::find(family.sizes_.begin(), family.sizes_.begin() + i, size) !=
                            family.sizes_.begin() + i;
      const bool large = std::any_of(numbers.begin(), numbers.end(), [](int64_t number) {
        return number > kMostNumber || number < -kMostNumber;
      });
      if (repeated || large) return std::nullopt;
      family.sizes_[i] = size;
      family.numbers_[i] = std::move(numbers);
      continue;
    }
    for (size_t k = 0; k < numbers.size(); ++k) {
      const auto wanted =
          Interpolate(family.sizes_,
                      {family.numbers_[0][k], family.numbers_[1][k], family.numbers_[2][k]}, size);
      if (wanted != numbers[k]) return std::nullopt;
    }
  }
  return family;
}

std::optional<CallShape> ShapeFamily::At(int64_t size) const {
  if (size < 0 || size > kMostSize) return std::nullopt;
  std::vector<int64_t> numbers;
  for (size_t k = 0; k < numbers_[0].size(); ++k) {
    const auto number = Interpolate(sizes_, {numbers_[0][k], numbers_[1][k], numbers_[2][k]}, size);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  CallShape call = like_;
  std::span<const int64_t> rest = numbers;
  for (Value& value : call.args) {
    if (!Fill(value, rest, call.zeros)) return std::nullopt;
  }
  return call;
}

}  // namespace cupel::task
