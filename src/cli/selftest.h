// What `cupel selftest` finds: what came of each kernel of the corpora, and the rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/corpus.h"

namespace cupel::cli {

/// What `cupel check` said about one kernel, or why it said nothing.
struct CheckOutcome {
  std::string decision;            // of the verdict; "crashed", "timed_out" where there is none
  std::vector<std::string> codes;  // of its reasons
  std::string message;             // the first reason's
  bool error_finding = false;      // the engine saw what a correct kernel does not do
  double seconds = 0;
};

/// From the exit status of `cupel check` and what it wrote; a verdict that contradicts the status
/// counts as "crashed".
CheckOutcome OutcomeOf(int exit_status, const Json& verdict);

struct Examined {
  const Specimen* specimen = nullptr;
  CheckOutcome outcome;
};

/// Nothing where all is as expected, else one sentence.
std::string SurpriseIn(const Examined& examined);

struct Rates {
  int must_fail = 0, not_accepted = 0, expected_reason = 0;
  int must_pass = 0, false_alarms = 0;
  int surprises = 0;
};
Rates RatesOf(const std::vector<Examined>& all);

/// The table that the terminal shows; `skipped` were left out, with a GPU or a filter as the cause.
std::string SelftestText(const std::vector<Examined>& all,
                         const std::vector<const Specimen*>& skipped, double seconds);
/// "cupel.selftest/1" (docs/formats/selftest.md).
Json SelftestJson(const std::vector<Examined>& all, const std::vector<const Specimen*>& skipped,
                  const std::string& device, double seconds);

}  // namespace cupel::cli
