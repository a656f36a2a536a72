// SPDX-License-Identifier: Apache-2.0
#include "records/digest.h"

#include "base/hash.h"
#include "base/json.h"

namespace cupel::records {

std::string DigestOf(const Json& record) {
  // Sort members by name, so that their order in the file does not matter.
  nlohmann::json sorted = record;
  if (sorted.is_object()) {
    for (const char* member : {"timing", "digest", "signatures"}) sorted.erase(member);
    if (const auto others = sorted.find("other_engines");
        others != sorted.end() && others->is_array()) {
      for (auto& other : *others) {
        if (other.is_object()) other.erase("timing");
      }
    }
  }
  return Sha256Hex(sorted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void AddDigest(Json& record) { record["digest"] = DigestOf(record); }

}  // namespace cupel::records
