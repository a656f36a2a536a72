// SPDX-License-Identifier: Apache-2.0
#include "review/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/lanes.h"

namespace cupel::review {
namespace {

/// One review: a variant of each aspect's instructions, read by all models.
struct Question {
  size_t sample = 0;
  std::array<size_t, kAspects> variants{};
};

/// Whose opinion it is, and on what.
struct Place {
  size_t sample = 0, aspect = 0, variant = 0, model = 0;
  auto operator<=>(const Place&) const = default;
};

using Opinions = std::map<Place, Opinion>;

/// One calibration.
class Calibration {
 public:
  Calibration(const std::vector<CalibrationCase>& cases, const std::vector<llm::Asker*>& models,
              const CalibrateOptions& options)
      : cases_(cases), models_(models), options_(options), reports_(ReportingHalf(cases)) {}
  Result<CalibrationResult> Run();

 private:
  std::vector<Question> FirstQuestions() const;
  Status Ask(const std::vector<Question>& questions);
  VerifierRates RatesOf(size_t aspect, size_t variant, size_t model, bool reports) const;
  void ChooseVariants();
  std::vector<VerifierRates> Chosen(bool reports) const;
  Review ReviewOf(size_t sample) const;
  Rates VoteOf(bool reports, const ReviewOptions& options) const;

  const std::vector<CalibrationCase>& cases_;
  const std::vector<llm::Asker*>& models_;
  const CalibrateOptions& options_;
  const std::vector<bool> reports_;
  Opinions opinions_;
  double usd_ = 0;  // of all reviews
  std::array<size_t, kAspects> chosen_{};
};

/// The questions that do not depend on the choice of variants: every variant on the tuning half,
/// and the reporting half if there is only one of each aspect. All of them can be asked at once.
std::vector<Question> Calibration::FirstQuestions() const {
  size_t most = 0;
  for (const auto& variants : options_.variants) most = std::max(most, variants.size());
  std::vector<Question> questions;
  for (size_t sample = 0; sample < cases_.size(); ++sample) {
    if (reports_[sample] && most > 1) continue;
    for (size_t variant = 0; variant < most; ++variant) {
      Question question{sample, {}};
      for (size_t aspect = 0; aspect < kAspects; ++aspect) {
        if (variant < options_.variants[aspect].size()) question.variants[aspect] = variant;
      }
      questions.push_back(question);
    }
  }
  return questions;
}

Status Calibration::Ask(const std::vector<Question>& questions) {
  std::mutex mutex;
  size_t done = 0;
  std::vector<Review> reviews(questions.size());
  TRY(ForEachOnLanes(options_.threads, questions.size(), [&](size_t, size_t i) -> Status {
    const Question& q = questions[i];
    ReviewOptions options;
    options.reflect = options_.reflect;
    for (size_t aspect = 0; aspect < kAspects; ++aspect) {
      options.instructions[aspect] = options_.variants[aspect][q.variants[aspect]].text;
    }
    TRY_ASSIGN(reviews[i], AskReviewers(cases_[q.sample].subject, models_, options));
    const std::lock_guard lock(mutex);
    if (options_.progress) options_.progress(++done, questions.size());
    return {};
  }));
  for (size_t i = 0; i < questions.size(); ++i) {
    const Question& q = questions[i];
    usd_ += reviews[i].usd;
    for (size_t at = 0; at < reviews[i].opinions.size(); ++at) {
      const size_t aspect = at % kAspects;
      // An aspect with fewer variants is asked about several times. The first review counts.
      opinions_.try_emplace({q.sample, aspect, q.variants[aspect], at / kAspects},
                            std::move(reviews[i].opinions[at]));
    }
  }
  return {};
}

VerifierRates Calibration::RatesOf(size_t aspect, size_t variant, size_t model,
                                   bool reports) const {
  VerifierRates result;
  result.aspect = kAllAspects[aspect];
  result.model = models_[model]->model();
  result.variant = options_.variants[aspect][variant].name;
  for (size_t sample = 0; sample < cases_.size(); ++sample) {
    const auto found = opinions_.find({sample, aspect, variant, model});
    if (reports_[sample] != reports || found == opinions_.end()) continue;
    const Opinion& opinion = found->second;
    result.usd += opinion.usd;
    result.input_tokens += opinion.input_tokens;
    result.output_tokens += opinion.output_tokens;
    const std::optional<bool> fine = cases_[sample].label.Fine(result.aspect);
    if (!fine) continue;
    result.unusable += !opinion.usable;
    result.misquoted += opinion.misquotes();
    result.rates.Add(*fine, !opinion.usable || opinion.fine);
    result.before.Add(*fine, !opinion.usable || opinion.first_fine.value_or(opinion.fine));
  }
  return result;
}

void Calibration::ChooseVariants() {
  for (size_t aspect = 0; aspect < kAspects; ++aspect) {
    double best = -1;
    for (size_t variant = 0; variant < options_.variants[aspect].size(); ++variant) {
      double sum = 0;
      for (size_t model = 0; model < models_.size(); ++model) {
        sum += RatesOf(aspect, variant, model, false).rates.Balanced();
      }
      if (sum > best) chosen_[aspect] = variant;
      best = std::max(best, sum);
    }
  }
}

std::vector<VerifierRates> Calibration::Chosen(bool reports) const {
  std::vector<VerifierRates> verifiers;
  for (size_t aspect = 0; aspect < kAspects; ++aspect) {
    for (size_t model = 0; model < models_.size(); ++model) {
      verifiers.push_back(RatesOf(aspect, chosen_[aspect], model, reports));
    }
  }
  return verifiers;
}

Review Calibration::ReviewOf(size_t sample) const {
  Review review;
  for (size_t model = 0; model < models_.size(); ++model) {
    for (size_t aspect = 0; aspect < kAspects; ++aspect) {
      review.opinions.push_back(opinions_.at({sample, aspect, chosen_[aspect], model}));
      review.usd += review.opinions.back().usd;
    }
  }
  return review;
}

Rates Calibration::VoteOf(bool reports, const ReviewOptions& options) const {
  Rates rates;
  for (size_t sample = 0; sample < cases_.size(); ++sample) {
    if (reports_[sample] != reports) continue;
    Review review = ReviewOf(sample);
    Count(review, options);
    rates.Add(!cases_[sample].label.wrong, review.passed);
  }
  return rates;
}

Result<CalibrationResult> Calibration::Run() {
  const std::vector<Question> first = FirstQuestions();
  TRY(Ask(first));
  ChooseVariants();
  std::vector<Question> rest;
  for (size_t sample = 0; sample < cases_.size(); ++sample) {
    const bool known = std::ranges::all_of(kAllAspects, [&](Aspect aspect) {
      const auto index = static_cast<size_t>(aspect);
      return opinions_.contains({sample, index, chosen_[index], 0});
    });
    if (!known) rest.push_back({sample, chosen_});
  }
  TRY(Ask(rest));

  CalibrationResult result;
  result.reports = reports_;
  result.options.reflect = options_.reflect;
  for (size_t aspect = 0; aspect < kAspects; ++aspect) {
    result.options.instructions[aspect] = options_.variants[aspect][chosen_[aspect]].text;
    for (size_t variant = 0; variant < options_.variants[aspect].size(); ++variant) {
      for (size_t model = 0; model < models_.size(); ++model) {
        result.tuning.push_back(RatesOf(aspect, variant, model, false));
      }
    }
  }
  TuneWeights(Chosen(false), result.options);
  std::vector<Review> tuning;
  std::vector<bool> fine;
  for (size_t sample = 0; sample < cases_.size(); ++sample) {
    ++(reports_[sample] ? result.reported_on : result.tuned_on);
    result.reviews.push_back(ReviewOf(sample));
    if (reports_[sample]) continue;
    tuning.push_back(result.reviews.back());
    fine.push_back(!cases_[sample].label.wrong);
  }
  result.options.threshold = TunedThreshold(std::move(tuning), fine, result.options);
  for (Review& review : result.reviews) Count(review, result.options);
  result.usd = usd_;
  result.verifiers = Chosen(true);
  result.vote = VoteOf(true, result.options);
  result.vote_tuning = VoteOf(false, result.options);
  ReviewOptions majority;
  majority.weighted = false;
  majority.threshold = 0.5;
  result.majority = VoteOf(true, majority);
  return result;
}

}  // namespace

Result<CalibrationResult> Calibrate(const std::vector<CalibrationCase>& cases,
                                    const std::vector<llm::Asker*>& models,
                                    const CalibrateOptions& options) {
  const auto wrong = std::count_if(cases.begin(), cases.end(), [](const CalibrationCase& c) {
    return c.label.wrong.has_value();
  });
  if (cases.size() < 4 || wrong < 2 || static_cast<size_t>(wrong) + 2 > cases.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} kernels, {} of them wrong, are too few for a calibration", cases.size(),
                    wrong),
        "label at least two correct and two wrong kernels; about sixty give useful results");
  }
  return Calibration(cases, models, options).Run();
}

}  // namespace cupel::review
