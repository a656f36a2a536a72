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

/// The listed setting that passed and cost least.
const records::SettingReport* Cheapest(const records::Verdict& verdict, const Question& question) {
  const records::SettingReport* cheapest = nullptr;
  for (const records::SettingReport& report : verdict.settings) {
    const auto listed = question.task->SettingsOf(question.direction);
    const bool is_listed = std::any_of(
        listed.begin(), listed.end(), [&](const auto& setting) { return setting.id == report.id; });
    if (!is_listed || !report.passed()) continue;
    if (cheapest == nullptr || report.seconds.engine < cheapest->seconds.engine) cheapest = &report;
  }
  return cheapest;
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
        "(see "
        "cupel prove)",
        output.differing, output.count, output.name, proof.setting, fmt::join(output.first, ", "),
        output.shadow, output.truth);
  }
  return proof.reason;
}

}  // namespace

Status AddProof(const Parts& parts, const Candidate& candidate, const Question& question,
                records::Verdict& verdict) {
  const records::SettingReport* report = Cheapest(verdict, question);
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
            "proved equal to the task as a function of real numbers at {}, for inputs that take "
            "the "
            "same decisions",
            setting.id);
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
