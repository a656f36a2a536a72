// SPDX-License-Identifier: Apache-2.0
#include "llm/provider.h"

namespace cupel::llm {

Reply Failed(Error error, bool retry) {
  Reply reply;
  reply.failure = Failure{std::move(error), retry, {}};
  return reply;
}

Reply Cancelled() { return Failed({ErrorCode::kCancelled, "cancelled", ""}); }

}  // namespace cupel::llm
