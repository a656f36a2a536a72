// Proves that a kernel computes its task's function of real numbers (assay/proof.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "assay/proof.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"

namespace cupel::app {

struct ProofReport {
  std::string kernel, task, direction;
  std::vector<assay::Proof> proofs;  // for each setting, on its usual inputs and on heavy ones
  /// Differs somewhere, proved on the usual inputs of all settings, or neither.
  assay::ProofOutcome outcome() const;
};

/// Errors: also kInvalidArgument, if the kernel does not build or is to run on a GPU.
Result<ProofReport> Prove(const ProveOptions& options, Events& events);
/// The document "cupel.proof/1".
Json ToJson(const ProofReport& report);

}  // namespace cupel::app
