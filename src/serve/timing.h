// An accepted item that still has settings to time. Settings are handed out one by one, so several
// GPUs can share a long item, and a lost worker only loses one setting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/schedule.h"
#include "serve/item.h"

namespace cupel::serve {

struct Timing {
  /// Settings that already have times in `judged` are left out.
  Timing(Judgement judged, int most_attempts);

  Judgement judged;
  std::vector<std::string> settings;  // to be timed
  Schedule schedule;                  // of these settings
  std::optional<size_t> judge;        // the slot that times it before it judges other items
  std::string worker;                 // the name of that slot's worker
  bool is_confirmed = false;          // a worker of this run judged it or confirmed the verdict
  std::set<size_t> refused_by;        // slots on whose machine the verdict is not valid
  std::set<int64_t> tickets;          // of settings that are being timed
};

/// cupel.bench/1 of all settings that have times in `judged`; null if there are none. `kernel`: its
/// name in the result.
Json BenchOf(const Judgement& judged, const std::string& kernel);

}  // namespace cupel::serve
