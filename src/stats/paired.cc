// SPDX-License-Identifier: Apache-2.0
#include "stats/paired.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/result.h"

namespace cupel::stats {
namespace {

constexpr size_t kExact = 30;

std::vector<double> LogRatios(std::span<const double> a, std::span<const double> b) {
  CHECK(a.size() == b.size() && !a.empty());
  std::vector<double> logs(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i] > 0 && b[i] > 0);
    logs[i] = std::log(a[i] / b[i]);
  }
  return logs;
}

/// P(W = w) for all w. Each rank is in the sum with probability 1/2.
std::vector<double> SignedRankDistribution(size_t n) {
  std::vector<double> p(n * (n + 1) / 2 + 1, 0.0);
  p[0] = 1;
  for (size_t rank = 1; rank <= n; ++rank) {
    for (size_t w = p.size(); w-- > 0;) {
      p[w] = 0.5 * p[w] + (w >= rank ? 0.5 * p[w - rank] : 0);
    }
  }
  return p;
}

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

Interval Exponential(Interval logs) {
  return {std::exp(logs.estimate), std::exp(logs.low), std::exp(logs.high), logs.confidence};
}

/// How many of the smallest pairwise means lie outside the interval, and the interval's coverage.
std::pair<size_t, double> TailCount(size_t n, double confidence) {
  const double tail = (1 - confidence) / 2;
  const size_t all = n * (n + 1) / 2;
  if (n <= kExact) {
    const std::vector<double> p = SignedRankDistribution(n);
    size_t k = 0;
    double sum = 0;
    while (k < all / 2 && sum + p[k] <= tail) sum += p[k++];
    // With k means cut off on each side, the interval misses with probability 2 P(W <= k - 1).
    return {k, 1 - 2 * (k == 0 ? p[0] : sum)};
  }
  const auto size = static_cast<double>(n);
  const double mean = size * (size + 1) / 4, sd = std::sqrt(mean * (2 * size + 1) / 6);
  size_t k = 0;
  while (k < all / 2 && NormalCdf((static_cast<double>(k) + 0.5 - mean) / sd) <= tail) ++k;
  return {k, confidence};
}

}  // namespace

double SignedRankCdf(size_t w, size_t n) {
  const std::vector<double> p = SignedRankDistribution(n);
  double sum = 0;
  for (size_t i = 0; i <= std::min(w, p.size() - 1); ++i) sum += p[i];
  return std::min(1.0, sum);
}

Interval PairedRatio(std::span<const double> a, std::span<const double> b, double confidence) {
  CHECK(confidence > 0 && confidence < 1);
  const std::vector<double> logs = LogRatios(a, b);
  std::vector<double> means;
  means.reserve(logs.size() * (logs.size() + 1) / 2);
  for (size_t i = 0; i < logs.size(); ++i) {
    for (size_t j = i; j < logs.size(); ++j) means.push_back((logs[i] + logs[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  const auto [cut, covered] = TailCount(logs.size(), confidence);
  // Cutting k means leaves x(k+1) … x(M-k). If none is cut, the extremes bound the interval.
  const size_t k = cut == 0 ? 0 : cut - 1;
  return Exponential(
      {Median(means), means[k], means[means.size() - 1 - k], std::max(0.0, covered)});
}

Interval PairedRatioBySigns(std::span<const double> a, std::span<const double> b,
                            double confidence) {
  return Exponential(MedianInterval(LogRatios(a, b), confidence));
}

double WilcoxonP(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences, sizes;
  for (double log : LogRatios(a, b)) {
    if (log == 0) continue;
    differences.push_back(log);
    sizes.push_back(std::fabs(log));
  }
  const size_t n = differences.size();
  if (n == 0) return 1;
  std::vector<double> ranks(n);
  Ranks(sizes, ranks);
  double positive = 0, ties = 0;
  for (size_t i = 0; i < n; ++i) {
    if (differences[i] > 0) positive += ranks[i];
  }
  std::sort(sizes.begin(), sizes.end());
  for (size_t begin = 0; begin < n;) {
    size_t end = begin + 1;
    while (end < n && sizes[end] == sizes[begin]) ++end;
    const auto t = static_cast<double>(end - begin);
    ties += t * t * t - t;
    begin = end;
  }
  const auto size = static_cast<double>(n);
  const double total = size * (size + 1) / 2, smaller = std::min(positive, total - positive);
  if (n <= kExact && ties == 0) {
    return std::min(1.0, 2 * SignedRankCdf(static_cast<size_t>(std::llround(smaller)), n));
  }
  const double variance = total * (2 * size + 1) / 12 - ties / 48;
  if (variance <= 0) return 1;
  return std::min(1.0, 2 * NormalCdf((smaller - total / 2 + 0.5) / std::sqrt(variance)));
}

}  // namespace cupel::stats
