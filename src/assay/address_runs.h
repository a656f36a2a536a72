// Runs of some blocks of each launch at sizes too large to execute: of what they compute, only the
// addresses and the number of bytes that they store mean something (RunOptions::addresses_only).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/judging_state.h"
#include "base/random.h"
#include "records/finding.h"

namespace cupel::assay {

/// A recorded call; borrowed.
struct RecordedCall {
  const plan::Plan* plan = nullptr;
  const build::Images* images = nullptr;
  const std::vector<task::Value>* args = nullptr;
};

class AddressRuns {
 public:
  /// `state` and `parts` must outlive the object. The engine must be the emulator.
  AddressRuns(JudgingState& state, const Parts& parts, Random random)
      : state_(state), parts_(parts), random_(random) {}

  /// What is wrong at this size.
  struct Fault {
    std::string code;   // as in a reason
    std::string text;   // "address 0x… is outside of every buffer (kernel.cu:31)"
    std::string where;  // place in the source; may be empty
    int line = 0;
  };
  /// A wrong address, or results that the launches cannot fill. Contents are zeros, which may lead
  /// to wrong addresses, or past stores, at any size: so nothing is said if the same happens at a
  /// size of `judged`, where the candidate is right.
  Result<std::optional<Fault>> FaultAt(const RecordedCall& call,
                                       std::span<const RecordedCall> judged);

 private:
  struct Seen {
    bool ended = false;  // all chosen blocks ran to their end
    std::optional<records::Finding> finding;
    double stored = 0;          // bytes by all blocks, extrapolated
    double results = 1;         // bytes, at least 1
    bool is_even = true;        // all blocks do the same work, without atomics
    uint64_t run = 0, all = 0;  // blocks
  };
  Result<Seen> Run(const RecordedCall& call);

  JudgingState& state_;
  const Parts& parts_;
  Random random_;
};

}  // namespace cupel::assay
