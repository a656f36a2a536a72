// Reads the evidence and the profile of a run's winner from its stored verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json.h"

namespace cupel::report {

/// Decision, settings, seeds, digest, what was not checked (docs/formats/run.md). `verdict` is a
/// cupel.verdict/1; members may be missing.
Json EvidenceOf(const archive::StoredVerdict& stored, const Json& verdict,
                const std::vector<archive::Sample>& samples);

/// Resources, and counters of the launches.
Json ProfileOf(const Json& verdict);

}  // namespace cupel::report
