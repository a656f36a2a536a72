// Measures reviewers on labelled kernels, and tunes them. One half of the kernels is used to choose
// instructions, weights and threshold. The other half, which is not used for tuning, measures the
// result.
// SPDX-License-Identifier: Apache-2.0
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
  size_t threads = 512;  // concurrent questions; models also have limits (at_once)
  /// May be called by any thread, but never concurrently.
  std::function<void(size_t done, size_t all)> progress = {};
};

/// One verifier on one half.
struct VerifierRates {
  Aspect aspect = Aspect::kCompile;
  std::string model, variant;
  Rates rates;   // an unusable answer counts as "fine"
  Rates before;  // of the first answers, before reflection
  int64_t unusable = 0, misquoted = 0;
  double usd = 0;
  int64_t input_tokens = 0, output_tokens = 0;
};

struct CalibrationResult {
  ReviewOptions options;                 // tuned
  size_t tuned_on = 0, reported_on = 0;  // kernels
  std::vector<VerifierRates> tuning;     // every variant, on the tuning half
  std::vector<VerifierRates> verifiers;  // the chosen ones, on the reporting half
  Rates vote, vote_tuning;               // tuned vote, on the reporting and tuning halves
  Rates majority;                        // untuned majority, on the reporting half
  std::vector<Review> reviews;           // by case, with the chosen instructions
  std::vector<bool> reports;             // by case: in the reporting half
  double usd = 0;
};

/// The cases of the half that measures the result: every other case of each stratum (kind of
/// error), ordered by the hash of the id. The same in every run and not chosen by hand.
std::vector<bool> ReportingHalf(const std::vector<CalibrationCase>& cases);

/// Sets the weight of each aspect: the log-odds of its verifiers' mean balanced accuracy, divided
/// by those of the best aspect. 0 if it is no better than chance.
void TuneWeights(const std::vector<VerifierRates>& verifiers, ReviewOptions& options);

/// The threshold with the lowest loss on `reviews`, whose labels are `fine`. The loss is twice the
/// share of correct kernels that are stopped plus the share of wrong kernels that pass. Computes
/// scores with `options`.
double TunedThreshold(std::vector<Review> reviews, const std::vector<bool>& fine,
                      const ReviewOptions& options);

/// Asks every model every question, with up to `threads` questions at once. Needs at least two
/// correct and two wrong cases. Errors: kCancelled; kInvalidArgument.
Result<CalibrationResult> Calibrate(const std::vector<CalibrationCase>& cases,
                                    const std::vector<llm::Asker*>& models,
                                    const CalibrateOptions& options);

/// The calibration document without its author: options, verifiers, votes, kernels.
Json ToJson(const CalibrationResult& result, const std::vector<CalibrationCase>& cases);

}  // namespace cupel::review
