// The choices that calibration makes: halves, weights, threshold.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "base/hash.h"
#include "review/calibrate.h"

namespace cupel::review {

std::vector<bool> ReportingHalf(const std::vector<CalibrationCase>& cases) {
  std::vector<std::tuple<int, std::string, size_t>> order;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& wrong = cases[i].label.wrong;
    order.emplace_back(wrong ? static_cast<int>(*wrong) : -1, Sha256Hex(cases[i].label.id), i);
  }
  std::sort(order.begin(), order.end());
  // Alternate across strata, so that strata of odd size do not all favour one half.
  std::vector<bool> reports(cases.size());
  for (size_t i = 0; i < order.size(); ++i) reports[std::get<2>(order[i])] = i % 2 == 1;
  return reports;
}

void TuneWeights(const std::vector<VerifierRates>& verifiers, ReviewOptions& options) {
  constexpr double kMaxAccuracy = 0.98;  // tens of kernels cannot show a higher accuracy
  double strongest = 0;
  for (size_t aspect = 0; aspect < kAspects; ++aspect) {
    double sum = 0;
    int count = 0;
    for (const VerifierRates& verifier : verifiers) {
      if (static_cast<size_t>(verifier.aspect) != aspect) continue;
      sum += verifier.rates.Balanced();
      ++count;
    }
    const double balanced = count > 0 ? std::clamp(sum / count, 0.5, kMaxAccuracy) : 0.5;
    options.weights[aspect] = std::log(balanced / (1 - balanced));
    strongest = std::max(strongest, options.weights[aspect]);
  }
  // If no verifier is better than chance, all have the same weight.
  for (double& weight : options.weights) weight = strongest > 0 ? weight / strongest : 1;
}

double TunedThreshold(std::vector<Review> reviews, const std::vector<bool>& fine,
                      const ReviewOptions& options) {
  constexpr double kLostRightKernel = 2;
  std::vector<double> scores, cuts = {0};
  for (Review& review : reviews) {
    Count(review, options);
    scores.push_back(review.score);
  }
  std::vector<double> sorted = scores;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) cuts.push_back((sorted[i - 1] + sorted[i]) / 2);
  const auto right = static_cast<double>(std::count(fine.begin(), fine.end(), true));
  const double wrong = static_cast<double>(fine.size()) - right;
  double best_cut = 0, best_loss = 1e300;
  for (const double cut : cuts) {
    double stopped = 0, missed = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (fine[i] && scores[i] < cut) ++stopped;
      if (!fine[i] && scores[i] >= cut) ++missed;
    }
    const double loss =
        kLostRightKernel * stopped / std::max(1.0, right) + missed / std::max(1.0, wrong);
    if (loss < best_loss) best_cut = cut;  // of equal losses take the lowest cut, which passes more
    best_loss = std::min(best_loss, loss);
  }
  return best_cut;
}

}  // namespace cupel::review
