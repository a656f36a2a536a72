// A language model's answer, and its edits of a kernel.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "evolve/edits.h"
#include "evolve/novelty.h"
#include "evolve/reply.h"
#include "harness.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const auto reply = evolve::ReadReply(input);
  if (!reply) {
    CHECK(!reply.error().message.empty());
    return;
  }
  CHECK(reply->code || !reply->edits.empty() || reply->done);
  CHECK(!(reply->code && !reply->edits.empty()));
  const std::string source = reply->code ? *reply->code : std::string(input);
  CHECK(evolve::IsCopy(evolve::Shingles(source), evolve::Shingles(source + "\n// end")) ||
        source.find_first_of("\"'/\\") != std::string::npos);
  const auto edited = evolve::ApplyEdits(source, reply->edits);
  if (edited && reply->edits.empty()) CHECK(*edited == source);
  // Each edit applies to a file that consists of the edit's own search text.
  for (const evolve::Edit& edit : reply->edits) {
    const auto alone = evolve::ApplyEdits(edit.search, {edit});
    if (alone && !edit.replace.empty()) CHECK(*alone == edit.replace + "\n");
  }
}

}  // namespace cupel::fuzz
