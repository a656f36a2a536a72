// Tested by heldout_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "task/sizes.h"

#include <algorithm>

namespace cupel::task {
namespace {

constexpr int64_t kLargestNumber = 1 << 24;  // a larger number is not a size
/// Smaller numbers that only the model takes are likely kernel sizes, strides or paddings.
constexpr int64_t kSmallestFeature = 8;

std::optional<int64_t> SizeOf(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < 1 || number > kLargestNumber) return std::nullopt;
  return number;
}

}  // namespace

/// Numbers that only get_inputs takes, such as batch sizes, rows and heights. Names with "batch"
/// come first.
Numbers RowsOf(const Setting& setting) {
  Numbers rows;
  for (const auto& [key, value] : setting.inputs.items()) {
    const auto number = SizeOf(value);
    if (number && !setting.init.contains(key)) rows.emplace_back(key, *number);
  }
  std::stable_partition(rows.begin(), rows.end(), [](const Number& row) {
    return row.first.find("batch") != std::string::npos;
  });
  return rows;
}

/// Sizes that the model takes. Those shared with the inputs come first; then the largest first.
Numbers FeaturesOf(const Setting& setting) {
  Numbers features;
  for (const auto& [key, value] : setting.init.items()) {
    const auto number = SizeOf(value);
    const bool shared = setting.inputs.contains(key);
    if (shared && setting.inputs[key] != value) continue;  // one name, two meanings
    if (number && *number >= (shared ? 4 : kSmallestFeature)) features.emplace_back(key, *number);
  }
  std::stable_sort(features.begin(), features.end(), [&](const Number& a, const Number& b) {
    const bool a_shared = setting.inputs.contains(a.first);
    const bool b_shared = setting.inputs.contains(b.first);
    return std::pair(!a_shared, -a.second) < std::pair(!b_shared, -b.second);
  });
  return features;
}

Numbers OptionsOf(const Setting& setting) {
  Numbers options;
  for (const auto& [key, value] : setting.init.items()) {
    if (!value.is_number_integer() || setting.inputs.contains(key)) continue;
    const auto number = value.get<int64_t>();
    if (number >= 0 && number < kSmallestFeature) options.emplace_back(key, number);
  }
  return options;
}

std::optional<int64_t> NumberAt(const Setting& setting, const std::string& key) {
  for (const Json* arguments : {&setting.inputs, &setting.init}) {
    const auto found = arguments->find(key);
    if (found != arguments->end() && found->is_number_integer()) return found->get<int64_t>();
  }
  return std::nullopt;
}

void SetNumber(Setting& setting, const std::string& key, int64_t number) {
  for (Json* arguments : {&setting.inputs, &setting.init}) {
    if (arguments->contains(key)) (*arguments)[key] = number;
  }
}

}  // namespace cupel::task
