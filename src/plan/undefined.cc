// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "plan/plan.h"

namespace cupel::plan {

void PoisonUndefined(const Launch& launch, uint32_t poison, std::span<std::byte> parameters) {
  for (const uint32_t at : launch.undefined) {
    if (parameters.size() < sizeof poison || at > parameters.size() - sizeof poison) continue;
    std::memcpy(parameters.data() + at, &poison, sizeof poison);
  }
}

}  // namespace cupel::plan
