// SPDX-License-Identifier: Apache-2.0
#include "assay/twin.h"

namespace cupel::assay {

std::optional<task::Setting> SmallerTwin(const task::Setting& setting, double factor) {
  task::Setting twin = setting;
  double gained = 1;
  while (gained < factor) {
    // The largest even number, so that properties that kernels rely on (powers of two) remain.
    Json* largest = nullptr;
    for (auto& [key, value] : twin.inputs.items()) {
      if (!value.is_number_integer() || setting.init.contains(key)) continue;
      const auto number = value.get<int64_t>();
      if (number < 2 || number % 2 != 0) continue;
      if (largest == nullptr || number > largest->get<int64_t>()) largest = &value;
    }
    if (largest == nullptr) break;
    *largest = largest->get<int64_t>() / 2;
    gained *= 2;
  }
  if (gained == 1) return std::nullopt;
  return twin;
}

}  // namespace cupel::assay
