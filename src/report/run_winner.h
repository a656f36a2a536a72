// What a stored verdict says about the winner of a run: the evidence, and the profile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json.h"

namespace cupel::report {

/// Decision, settings, seeds, digest, what was not checked (docs/formats/run.md). `verdict` is a
/// cupel.verdict/1 of any completeness.
Json EvidenceOf(const archive::StoredVerdict& stored, const Json& verdict,
                const std::vector<archive::Sample>& samples);

/// Resources and counters of its launches.
Json ProfileOf(const Json& verdict);

}  // namespace cupel::report
