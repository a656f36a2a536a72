// SPDX-License-Identifier: Apache-2.0
#include "llm/provider.h"

#include "os/process.h"

namespace cupel::llm {

bool Call::Stopped() const { return (stop != nullptr && *stop) || os::CancelRequested(); }

Reply Failed(Error error, bool retry) {
  Reply reply;
  reply.failure = Failure{std::move(error), retry, {}};
  return reply;
}

Reply Cancelled() { return Failed({ErrorCode::kCancelled, "cancelled", ""}); }

}  // namespace cupel::llm
