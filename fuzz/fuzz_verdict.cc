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
  for (const auto extent : {judge::Extent::kAll, judge::Extent::kBounds, judge::Extent::kVerdict}) {
    CHECK(judge::CompareRecords(record->json, again->json, extent).empty());
    (void)judge::CompareRecords(record->json, Json::object(), extent);
  }
}

}  // namespace cupel::fuzz
