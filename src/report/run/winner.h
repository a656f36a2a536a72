// Reads the evidence and the profile of a run's winner from its stored verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json_fwd.h"
#include "records/verdict.h"

namespace cupel::report {

/// Decision, settings, seeds, digest, what was not checked (docs/formats/run.md).
Json EvidenceOf(const archive::StoredVerdict& stored, const records::Verdict& verdict,
                const std::vector<archive::Sample>& samples);

/// Resources, and counters of the launches.
Json ProfileOf(const records::Verdict& verdict);

}  // namespace cupel::report
