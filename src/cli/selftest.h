// The results of `cupel selftest`: the outcome for each kernel of the corpora, and the rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/corpus.h"

namespace cupel::cli {

/// The result of `cupel check` for one kernel, or why there is none.
struct CheckOutcome {
  std::string decision;            // of the verdict; "crashed" or "timed_out" without a verdict
  std::vector<std::string> codes;  // of the reasons
  std::string message;             // of the first reason
  bool error_finding = false;      // the engine found an error in the kernel's execution
  double seconds = 0;
};

/// Takes the exit status of `cupel check` and the verdict that it wrote. If they contradict each
/// other, the decision is "crashed".
CheckOutcome OutcomeOf(int exit_status, const Json& verdict);

struct Examined {
  const Specimen* specimen = nullptr;
  CheckOutcome outcome;
};

/// One sentence that says how the result differs from the expectation; empty if it does not.
std::string SurpriseIn(const Examined& examined);

struct Rates {
  int must_fail = 0, not_accepted = 0, expected_reason = 0;
  int must_pass = 0, false_alarms = 0;
  int surprises = 0;
};
Rates RatesOf(const std::vector<Examined>& all);

/// The text for the terminal. `skipped` kernels need another device.
std::string SelftestText(const std::vector<Examined>& all,
                         const std::vector<const Specimen*>& skipped, double seconds);
/// The document "cupel.selftest/1" (docs/formats/selftest.md).
Json SelftestJson(const std::vector<Examined>& all, const std::vector<const Specimen*>& skipped,
                  const std::string& device, double seconds);

}  // namespace cupel::cli
