// The candidate's shared object inside the recorder child: loading, calling, and the rule of
// purity. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cupel/abi.h"
#include "plan/plan.h"
#include "record/protocol.h"
#include "record/session.h"
#include "record/surroundings.h"

namespace cupel::record {

/// Refuses, by name, a shared object that needs what nothing in this process defines.
void CheckSymbols(const std::string& path);

/// Entry points of a loaded candidate.
class Candidate {
 public:
  /// From here on hostile code runs. Refuses when the object does not load or is no module.
  static Candidate Load(const std::string& path);

  struct Call {
    plan::Plan plan;
    double host_us = 0;
  };
  /// One call at the fake addresses that follow from `seed`.
  Call Record(const Request& request, uint64_t seed, const Surroundings& around) const;

 private:
  std::string Exports() const;

  decltype(&cupel_candidate_describe) describe_ = nullptr;
  decltype(&cupel_candidate_call) call_ = nullptr;
};

struct PureRecording {
  plan::Plan plan;
  std::optional<plan::Plan> first;  // of the first call, where it asks for other work
  double host_us = 0;               // median of the steady state
  int recordings = 0;
};

/// Calls many times, with fresh and with repeated addresses, and refuses when plans differ once the
/// first call is over.
PureRecording RecordPure(const Candidate& candidate, const Request& request);

}  // namespace cupel::record
