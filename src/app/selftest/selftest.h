// Judges the corpora of known cheating and honest kernels: the outcome for each kernel, and the
// rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "app/selftest/corpus.h"
#include "base/events.h"
#include "base/json.h"

namespace cupel::app {

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

/// Not copyable, because its parts point to the specimens.
struct SelftestReport {
  SelftestReport() = default;
  SelftestReport(SelftestReport&&) = default;
  SelftestReport& operator=(SelftestReport&&) = default;

  std::vector<Specimen> specimens;
  std::vector<Examined> all;
  std::vector<const Specimen*> skipped;  // kernels that need another device
  std::string device;
  double seconds = 0;
};

/// Judges both corpora in the ordinary way. Each kernel goes to a separate process, `cupel check`,
/// so that it is treated exactly like a user's kernel. Errors: also kNotFound, if no kernel matches
/// the filter.
Result<SelftestReport> Selftest(const SelftestOptions& options, Events& events);

/// "rejected impure|wrong_return"
std::string Expectation(const Specimen& specimen);

/// The document "cupel.selftest/1" (docs/formats/selftest.md).
Json ToJson(const SelftestReport& report);

}  // namespace cupel::app
