// SPDX-License-Identifier: Apache-2.0
#include "stats/robust.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/result.h"

namespace cupel::stats {
namespace {

std::vector<double> Sorted(std::span<const double> samples) {
  CHECK(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  for (double s : sorted) CHECK(!std::isnan(s));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double QuantileOfSorted(const std::vector<double>& sorted, double q) {
  CHECK(q >= 0 && q <= 1);
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(below);
  return part == 0 ? sorted[below] : sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace

double Quantile(std::span<const double> samples, double q) {
  return QuantileOfSorted(Sorted(samples), q);
}

double Median(std::span<const double> samples) { return Quantile(samples, 0.5); }

double Mean(std::span<const double> samples) {
  CHECK(!samples.empty());
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double Mad(std::span<const double> samples) {
  const double median = Median(samples);
  std::vector<double> deviations;
  for (double s : samples) deviations.push_back(std::fabs(s - median));
  return 1.4826 * Median(deviations);
}

double GeometricMean(std::span<const double> samples) {
  CHECK(!samples.empty());
  double sum = 0;
  for (double s : samples) {
    CHECK(s > 0);
    sum += std::log(s);
  }
  return std::exp(sum / static_cast<double>(samples.size()));
}

double BinomialHalfCdf(int k, int n) {
  if (k < 0) return 0;
  double sum = 0;
  for (int i = 0; i <= std::min(k, n); ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) -
                    n * std::log(2.0));
  }
  return std::min(1.0, sum);
}

Interval MedianInterval(std::span<const double> samples, double confidence) {
  CHECK(confidence > 0 && confidence < 1);
  const std::vector<double> sorted = Sorted(samples);
  const int n = static_cast<int>(sorted.size());
  // [x(k+1), x(n-k)] misses the median when at most k samples lie on one side of it.
  int k = 0;
  while (2 * (k + 1) < n && 2 * BinomialHalfCdf(k + 1, n) <= 1 - confidence) ++k;
  const double covered = 1 - 2 * BinomialHalfCdf(k, n);
  return {QuantileOfSorted(sorted, 0.5), sorted[static_cast<size_t>(k)],
          sorted[static_cast<size_t>(n - 1 - k)], std::max(0.0, covered)};
}

void Ranks(std::span<const double> samples, std::span<double> ranks) {
  CHECK(samples.size() == ranks.size());
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return samples[a] < samples[b]; });
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && samples[order[end]] == samples[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
    }
    begin = end;
  }
}

double SpearmanRho(std::span<const double> a, std::span<const double> b) {
  CHECK(a.size() == b.size() && a.size() >= 2);
  std::vector<double> ra(a.size()), rb(b.size());
  Ranks(a, ra);
  Ranks(b, rb);
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double cross = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    cross += (ra[i] - mean) * (rb[i] - mean);
    square_a += (ra[i] - mean) * (ra[i] - mean);
    square_b += (rb[i] - mean) * (rb[i] - mean);
  }
  return square_a == 0 || square_b == 0 ? 0 : cross / std::sqrt(square_a * square_b);
}

}  // namespace cupel::stats
