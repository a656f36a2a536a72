// Tested by tests/e2e/test_equivalence.py.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/without_fast_math.h"

#include <algorithm>

#include "app/candidate.h"
#include "assay/exploration.h"
#include "build/is_one_of.h"

namespace cupel::app {
namespace {

constexpr const char* kFast = "--use_fast_math";
constexpr const char* kAccurate = "--no-fast-math";

/// Whether it failed where no setting is. Judging it there again takes long.
bool FailsElsewhere(const records::Verdict& verdict) {
  return std::ranges::any_of(verdict.settings, &assay::IsExplored) ||
         std::ranges::any_of(verdict.other_engines, &FailsElsewhere);
}

bool HasWrongNumbersAlone(const records::Verdict& verdict) {
  const auto is_numeric = [](const records::Reason& reason) {
    return reason.code == "wrong_result" || reason.code == "not_equivalent" ||
           reason.code == "not_finite";
  };
  return verdict.decision == records::Decision::kRejected && !verdict.reasons.empty() &&
         std::ranges::all_of(verdict.reasons, is_numeric);
}

}  // namespace

Status TryWithoutFastMath(const std::filesystem::path& kernel, const Common& common,
                          Compile compile, const assay::Question& question, Session& session,
                          Events& events, records::Verdict& verdict) {
  const bool is_default = kernel.extension() == ".cu" && !build::IsOneOf(compile.flags, kFast) &&
                          build::IsOneOf(verdict.flags, kFast);
  if (!is_default || FailsElsewhere(verdict) || !HasWrongNumbersAlone(verdict)) return {};
  events.Show(Progress{"judging without fast math"});
  compile.flags.emplace_back(kAccurate);
  TRY_ASSIGN(const assay::Candidate candidate, BuildCandidate(kernel, common, compile, events));
  assay::Question again = question;
  assay::Change(again, [](assay::Question& one) {
    one.explores = one.proves = false;
    one.stop_at_first_failure = true;
  });
  // Cases of the secret pool are not those of the verdict's seed.
  if (!question.seed && question.given.empty()) {
    assay::Question same = again;
    assay::UseCasesOf(verdict, same);
    TRY_ASSIGN(const assay::Judged judged, session.assay().Judge(candidate, same));
    if (judged.verdict.decision != records::Decision::kAccepted) return {};
  }
  assay::Change(again, [&](assay::Question& one) { one.seed = verdict.seed; });
  TRY_ASSIGN(const assay::Judged judged, session.assay().Judge(candidate, again));
  if (judged.verdict.decision != records::Decision::kAccepted) return {};
  verdict.reasons.insert(
      verdict.reasons.begin(),
      {kFastMathReason,
       "wrong with --use_fast_math, which is on by default for .cu files, and right without: "
       "--flag=--no-fast-math accepts it, at the cost of slower functions",
       kernel.filename().string()});
  return {};
}

}  // namespace cupel::app
