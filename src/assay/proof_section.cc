// Tested by tests/e2e/test_prove.py.
// SPDX-License-Identifier: Apache-2.0
#include "assay/proof_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assay/proof.h"

namespace cupel::assay {
namespace {

constexpr double kMostSeconds = 1;  // of the engine, for all trials: a proof costs about as much

/// The first listed setting that passed, and was cheap if any was. Null: there is none.
const records::SettingReport* FirstCheap(const records::Verdict& verdict,
                                         const Question& question) {
  const records::SettingReport* chosen = nullptr;
  const auto listed = question.task->SettingsOf(question.direction);
  for (const records::SettingReport& report : verdict.settings) {
    const bool is_listed =
        std::ranges::any_of(listed, [&](const auto& setting) { return setting.id == report.id; });
    if (!is_listed || !report.passed()) continue;
    if (report.seconds.engine <= kMostSeconds) return &report;
    if (chosen == nullptr) chosen = &report;
  }
  return chosen;
}

std::string WhyNot(const Proof& proof) {
  if (!proof.reason.empty()) return proof.reason;
  for (const OutputProof& output : proof.outputs) {
    if (!output.reasons.empty()) return output.reasons.front();
  }
  return "no reason is known";
}

std::string Difference(const Proof& proof) {
  for (const OutputProof& output : proof.outputs) {
    if (output.differing == 0) continue;
    return fmt::format(
        "computes another function of real numbers than the task, within rounding: {} of {} "
        "elements of {} differ at {}; in exact arithmetic, [{}] is {:.17g}, the task's {:.17g} "
        "(see cupel prove)",
        output.differing, output.count, output.name, proof.setting, fmt::join(output.first, ", "),
        output.shadow, output.truth);
  }
  return proof.reason;
}

}  // namespace

Status AddProof(const Parts& parts, const Candidate& candidate, const Question& question,
                records::Verdict& verdict) {
  const records::SettingReport* report = FirstCheap(verdict, question);
  if (report == nullptr) return {};
  verdict.proof.setting = report->id;
  verdict.proof.outcome = Name(ProofOutcome::kNotProved);
  if (report->seconds.engine > kMostSeconds) {
    verdict.proof.message = "it takes long: use cupel prove";
    return {};
  }
  for (const task::Setting& setting : question.task->SettingsOf(question.direction)) {
    if (setting.id != report->id) continue;
    TRY_ASSIGN(const Proof proof,
               Prove(parts, candidate, question, setting, task::Distribution::kUsual, false));
    verdict.proof.outcome = Name(proof.outcome);
    switch (proof.outcome) {
      case ProofOutcome::kProved:
        verdict.proof.message = fmt::format(
            "proved equal to the task as a function of real numbers at {}, for inputs that "
            "take the same decisions{}{}",
            setting.id, proof.has_roots ? ", up to the signs of square roots" : "",
            proof.fixed_decisions.empty()
                ? ""
                : fmt::format(" ({} of the comparisons went only one way: cupel prove lists them)",
                              proof.fixed_decisions.size()));
        break;
      case ProofOutcome::kNotProved:
        verdict.proof.message = WhyNot(proof);
        break;
      case ProofOutcome::kDiffers:
        verdict.proof.message = Difference(proof);
        verdict.exploration.limits.push_back(
            {std::string(records::kOtherFunction), verdict.proof.message});
    }
  }
  return {};
}

}  // namespace cupel::assay
