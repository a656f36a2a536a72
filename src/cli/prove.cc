// `cupel prove`: whether a kernel computes its task's function of real numbers.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/prove.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

constexpr size_t kMostReasons = 6, kMostDecisions = 6;

void Print(const assay::OutputProof& output) {
  if (output.is_integers) {
    fmt::print("  {}: {} of {} integers depend on decisions alone, and are equal\n",
               Printable(output.name), output.proved, output.count);
  } else {
    fmt::print("  {}: {} of {} elements are equal in {} finite fields\n", Printable(output.name),
               output.proved, output.count, oracle::kFields);
  }
  if (output.differing > 0) {
    fmt::print("    {} differ; [{}]: {:.9g}, in exact arithmetic {:.17g}, the task's {:.17g}\n",
               output.differing, fmt::join(output.first, ", "), output.value, output.shadow,
               output.truth);
  }
  for (size_t i = 0; i < output.reasons.size() && i < kMostReasons; ++i) {
    fmt::print("    not proved: {}\n", Printable(output.reasons[i]));
  }
}

void Print(const assay::Proof& proof) {
  const bool usual = proof.inputs == task::Distribution::kUsual;
  const std::string sizes = proof.sizes.empty() ? "" : " (" + Printable(proof.sizes) + ")";
  fmt::print("{} at {}{}{}\n", assay::Name(proof.outcome), proof.setting,
             usual ? "" : ", heavy inputs", sizes);
  if (!proof.reason.empty()) fmt::print("  {}\n", Printable(proof.reason));
  if (proof.outcome == assay::ProofOutcome::kProved && !proof.beyond_tolerance.empty()) {
    fmt::print("  but its rounding is beyond the tolerance: {}\n",
               Printable(proof.beyond_tolerance));
  }
  for (const assay::OutputProof& output : proof.outputs) Print(output);
  if (proof.outcome != assay::ProofOutcome::kProved) return;
  const size_t fixed = proof.fixed_decisions.size();
  if (proof.varying_decisions > 0 || fixed > 0) {
    fmt::print("  comparisons of floats: {} went several ways, {} only one way\n",
               proof.varying_decisions, fixed);
  }
  for (size_t i = 0; i < fixed && i < kMostDecisions; ++i) {
    fmt::print("    {}\n", Printable(proof.fixed_decisions[i]));
  }
  if (usual) {
    fmt::print("  {}\n",
               proof.any_order
                   ? "every order of blocks and warps gives the same bits: no atomics, no race"
                   : "the order of blocks or warps may change bits: atomics, clusters or waits");
  }
  if (!proof.removable_barriers.empty()) {
    fmt::print("  hint: no race appears here without one of these barriers: {}\n",
               Printable(fmt::format("{}", fmt::join(proof.removable_barriers, ", "))));
  }
}

}  // namespace

Result<int> Run(const ProveCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::ProofReport report, app::Prove(command, view));
  view.End();
  const assay::ProofOutcome outcome = report.outcome();
  fmt::print("{}: {} for {} {}\n",
             outcome == assay::ProofOutcome::kProved    ? "PROVED"
             : outcome == assay::ProofOutcome::kDiffers ? "DIFFERS"
                                                        : "NOT PROVED",
             Printable(report.kernel), Printable(report.task), report.direction);
  for (const assay::Proof& proof : report.proofs) Print(proof);
  if (outcome == assay::ProofOutcome::kProved) {
    fmt::print(
        "equal as a function of real numbers at these sizes, for inputs that take the same "
        "decisions; see docs/proof.md for the bound and for what this leaves open\n");
    const bool roots = std::any_of(report.proofs.begin(), report.proofs.end(),
                                   [](const assay::Proof& proof) { return proof.has_roots; });
    if (roots) fmt::print("the signs of square roots are not proved\n");
  }
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  switch (outcome) {
    case assay::ProofOutcome::kProved:
      return 0;
    case assay::ProofOutcome::kDiffers:
      return 1;
    case assay::ProofOutcome::kNotProved:
      break;
  }
  return 3;
}

}  // namespace cupel::cli
