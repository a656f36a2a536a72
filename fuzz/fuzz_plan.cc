// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "harness.h"
#include "plan/codec.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const auto json = ParseJson(input, "fuzz");
  if (!json) return;
  const auto plan = plan::FromJson(*json, "fuzz");
  if (!plan) {
    CHECK(!plan.error().message.empty());
    return;
  }
  CHECK(plan::Validate(*plan).has_value());
  CHECK(plan::Describe(*plan).size() < size_t{64} << 20);
  const Json written = plan::ToJson(*plan);
  const auto again = plan::FromJson(written, "written");
  CHECK(again.has_value());
  CHECK(DumpJson(plan::ToJson(*again)) == DumpJson(written));
}

}  // namespace cupel::fuzz
