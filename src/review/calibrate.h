// Measures reviewers on labelled kernels, and tunes them: one half of the kernels chooses among
// instructions and sets weights and threshold, the other half, which nothing was chosen by, says
// how good the result is. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "review/calibration.h"
#include "review/instructions.h"
#include "review/labels.h"
#include "review/rates.h"
#include "review/review.h"

namespace cupel::review {

struct CalibrationCase {
  LabelledKernel label;
  Subject subject;
};

struct CalibrateOptions {
  Variants variants = DefaultVariants();
  bool reflect = true;
  size_t threads = 512;  // questions under way; models have limits of their own (at_once)
  std::function<void(size_t done, size_t all)> progress = {};  // by any thread, one at a time
};

/// One verifier on one half.
struct VerifierRates {
  Aspect aspect = Aspect::kCompile;
  std::string model, variant;
  Rates rates;   // where nothing is said, nothing is objected to
  Rates before;  // as the first answers were, before reflection
  int64_t unusable = 0, misquoted = 0;
  double usd = 0;
  int64_t input_tokens = 0, output_tokens = 0;
};

struct CalibrationResult {
  ReviewOptions options;                 // tuned
  size_t tuned_on = 0, reported_on = 0;  // kernels
  std::vector<VerifierRates> tuning;     // every variant, on the half that chooses
  std::vector<VerifierRates> verifiers;  // the chosen ones, on the other
  Rates vote, vote_tuning;               // tuned, on the other half and on its own
  Rates majority;                        // untuned majority on the other half
  std::vector<Review> reviews;           // by case, with the chosen instructions
  std::vector<bool> reports;             // by case: in the half that reports
  double usd = 0;
};

/// Which cases report: every other one of each stratum (what is wrong), in the order of the hashes
/// of their ids: the same in every run, and nobody's choice.
std::vector<bool> ReportingHalf(const std::vector<CalibrationCase>& cases);

/// The weights of the verifiers: the log-odds of their balanced accuracy over the best one's; 0 for
/// one that is no better than chance.
void TuneWeights(const std::vector<VerifierRates>& verifiers, ReviewOptions& options);

/// The threshold that loses least on `reviews`, whose labels are `fine`: the share of right kernels
/// that are stopped counts twice, that of wrong ones that pass once. Sets scores by `options`.
double TunedThreshold(std::vector<Review> reviews, const std::vector<bool>& fine,
                      const ReviewOptions& options);

/// Asks every model every question at once, as far as `threads` allow. At least four cases, of
/// which some are right and some wrong. Errors: kCancelled; kInvalidArgument.
Result<CalibrationResult> Calibrate(const std::vector<CalibrationCase>& cases,
                                    const std::vector<llm::Asker*>& models,
                                    const CalibrateOptions& options);

/// The document without who made it: options, verifiers, votes, kernels.
Json ToJson(const CalibrationResult& result, const std::vector<CalibrationCase>& cases);

}  // namespace cupel::review
