// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "harness.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const auto bytes = Base64Decode(input, "fuzz");
  if (bytes) CHECK(Base64Encode(*bytes) == input);

  const auto json = ParseJson(input, "fuzz");
  if (!json) {
    CHECK(!json.error().message.empty());
    return;
  }
  const std::string text = DumpJson(*json);
  const auto again = ParseJson(text, "printed");
  CHECK(again.has_value());
  CHECK(DumpJson(*again) == text);
}

}  // namespace cupel::fuzz
