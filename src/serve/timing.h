// An item that was judged right and is not timed everywhere yet. Its settings are work of their
// own, so that several GPUs can share a long item and a lost worker costs one setting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serve/item.h"
#include "serve/schedule.h"

namespace cupel::serve {

struct Timing {
  /// What `judged` has times of is done.
  Timing(Judgement judged, int most_attempts);

  Judgement judged;
  std::vector<std::string> settings;  // to be timed
  Schedule schedule;                  // of these
  std::optional<size_t> judge;        // the place that goes on with it before it judges others
  std::string worker;                 // its name
  bool stands = false;                // found or confirmed by a worker of this run
  std::set<size_t> refused_by;        // places where the verdict does not stand
  std::set<int64_t> tickets;          // of what is under way
};

/// cupel.bench/1 of all settings that `judged` has times of; null where there are none. `kernel`:
/// its name there.
Json BenchOf(const Judgement& judged, const std::string& kernel);

}  // namespace cupel::serve
