// Writes the results of a suite, from its store, as one JSON document, "cupel.suite/1"
// (docs/formats/suite.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "archive/suite_store.h"
#include "base/json.h"

namespace cupel::report {

/// On the emulator, runs with the same seed give equal documents, except for members named
/// "timing". This also holds for interrupted runs.
Result<Json> SuiteDocument(const archive::SuiteStore& store);

/// One item of the document. `verdict` and `bench` are null if there are none.
Json SuiteItemJson(const archive::SuiteItem& item, const archive::SuiteOutcome& outcome,
                   const Json& verdict, const Json& bench);

/// The final decision: an accepted kernel that failed while it was timed is rejected. `bench` may
/// be null.
std::string DecisionOf(const Json& verdict, const Json& bench);

}  // namespace cupel::report
