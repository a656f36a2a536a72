// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "plan/plan.h"

namespace cupel::plan {

void PoisonUndefined(const Launch& launch, uint32_t poison, std::span<std::byte> parameters) {
  std::array<std::byte, sizeof poison> word;
  std::memcpy(word.data(), &poison, sizeof poison);
  for (const ByteRange& range : launch.undefined) {
    const uint64_t end = std::min<uint64_t>(uint64_t{range.at} + range.bytes, parameters.size());
    for (uint64_t at = range.at; at < end; ++at) parameters[at] = word[at % word.size()];
  }
}

}  // namespace cupel::plan
