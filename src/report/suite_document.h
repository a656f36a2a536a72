// The results of a suite as one JSON document, "cupel.suite/1" (docs/formats/suite.md), made of
// what its store holds. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "archive/suite_store.h"
#include "base/json.h"

namespace cupel::report {

/// Everything that is not in a member named "timing" is the same for every run with the same seed
/// on the emulator, however often it was interrupted.
Result<Json> SuiteDocument(const archive::SuiteStore& store);

/// One item of the document, of its verdict and its measurement (null: none).
Json SuiteItemJson(const archive::SuiteItem& item, const archive::SuiteOutcome& outcome,
                   const Json& verdict, const Json& bench);

/// The decision that counts: a kernel that was accepted and then failed where it was timed is
/// rejected. `bench` may be null.
std::string DecisionOf(const Json& verdict, const Json& bench);

}  // namespace cupel::report
