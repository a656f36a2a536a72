// The candidate's shared object inside the recorder child: loads it, calls it, and checks that its
// plans are pure.
// SPDX-License-Identifier: Apache-2.0
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

/// Refuses a shared object that needs symbols which this process does not define, and names them.
void CheckSymbols(const std::string& path);

/// Entry points of a loaded candidate.
class Candidate {
 public:
  /// Runs hostile code from here on. Refuses if the object cannot be loaded or is not a module.
  static Candidate Load(const std::string& path);

  /// The signatures of the module's functions: "forward(x: torch.Tensor) -> torch.Tensor".
  std::vector<std::string> Functions() const;

  struct Call {
    plan::Plan plan;
    double host_us = 0;
    bool reads_values = false;  // of arguments
  };
  /// Records one call. `seed` determines the fake addresses.
  Call Record(const Request& request, uint64_t seed, const Surroundings& around) const;

 private:
  std::string Exports() const;

  decltype(&cupel_candidate_describe) describe_ = nullptr;
  decltype(&cupel_candidate_call) call_ = nullptr;
};

struct PureRecording {
  plan::Plan plan;
  std::optional<plan::Plan> first;  // plan of the first call, if it differs
  double host_us = 0;               // median of the steady state
  int recordings = 0;
  bool reads_values = false;  // a call read values of arguments
};

/// Calls the function many times, with fresh and with repeated addresses. Refuses if plans differ
/// after the first call.
PureRecording RecordPure(const Candidate& candidate, const Request& request);

}  // namespace cupel::record
