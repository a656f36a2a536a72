// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "harness.h"
#include "task/safetensors.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  // A copy of exactly this size, so that AddressSanitizer detects a read one byte past the end.
  const auto bytes = std::make_unique<std::byte[]>(input.size());
  if (!input.empty()) std::memcpy(bytes.get(), input.data(), input.size());
  const auto file = task::ParseSafetensors({bytes.get(), input.size()}, "fuzz");
  if (!file) CHECK(!file.error().message.empty());
}

}  // namespace cupel::fuzz
