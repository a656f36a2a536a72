// SPDX-License-Identifier: Apache-2.0
#include "app/lanes.h"

#include <fmt/format.h>

namespace cupel::app {

Result<std::vector<std::unique_ptr<Session>>> OpenLanes(const Common& common,
                                                        const Compile& compile, Events& events) {
  std::vector<std::unique_ptr<Session>> lanes;
  if (common.device != "gpu:all") {
    TRY_ASSIGN(auto session, Session::Create(common, compile, events, true));
    lanes.push_back(std::move(session));
    return lanes;
  }
  for (int ordinal = 0;; ++ordinal) {
    Common one = common;
    one.device = fmt::format("gpu:{}", ordinal);
    auto session = Session::Create(one, compile, events, true);
    // kNotFound means that there are no more GPUs.
    const bool is_end = !session && session.error().code == ErrorCode::kNotFound;
    if (is_end && !lanes.empty()) return lanes;
    if (!session) return tl::unexpected<Error>(session.error());
    lanes.push_back(std::move(*session));
  }
}

}  // namespace cupel::app
