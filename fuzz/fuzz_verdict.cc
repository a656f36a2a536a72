// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "harness.h"
#include "judge/record.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const auto record = judge::ReadRecord(input, "fuzz");
  if (!record) {
    CHECK(!record.error().message.empty());
    return;
  }
  // The digest depends on the record's content, not on its formatting.
  const auto again = judge::ReadRecord(DumpJson(record->json, 2) + "\n", "printed");
  CHECK(again.has_value() && again->is_canonical);
  CHECK(again->computed_digest == record->computed_digest);
  CHECK(judge::CompareRecords(record->json, again->json, true).empty());
  (void)judge::CompareRecords(record->json, Json::object(), true);
  (void)judge::CompareRecords(record->json, Json::object(), false);
}

}  // namespace cupel::fuzz
