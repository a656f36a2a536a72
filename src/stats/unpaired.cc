// SPDX-License-Identifier: Apache-2.0
#include "stats/unpaired.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/result.h"

namespace cupel::stats {
namespace {

double UpperTail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// The variance of the sum of a's ranks, corrected for ties. `ranks` has the ranks of both samples.
double Variance(double m, double n, std::vector<double> ranks) {
  std::sort(ranks.begin(), ranks.end());
  double ties = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i;
    while (j < ranks.size() && ranks[j] == ranks[i]) ++j;
    const auto t = static_cast<double>(j - i);
    ties += t * t * t - t;
    i = j;
  }
  const double all = m + n;
  return m * n / 12 * (all + 1 - ties / (all * (all - 1)));
}

/// z with P(Z > z) = tail, by bisection.
double Quantile(double tail) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (UpperTail(middle) > tail ? low : high) = middle;
  }
  return low;
}

double At(std::vector<double>& values, size_t index) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

Interval UnpairedRatio(std::span<const double> a, std::span<const double> b, double confidence) {
  CHECK(a.size() >= kFewestUnpaired && b.size() >= kFewestUnpaired);
  CHECK(confidence > 0 && confidence < 1);
  std::vector<double> logs;
  logs.reserve(a.size() * b.size());
  for (const double x : a) {
    for (const double y : b) {
      CHECK(x > 0 && y > 0);
      logs.push_back(std::log(x / y));
    }
  }
  const auto m = static_cast<double>(a.size()), n = static_cast<double>(b.size());
  const double half = Quantile((1 - confidence) / 2) * std::sqrt(m * n * (m + n + 1) / 12);
  const auto cut = static_cast<size_t>(std::max(0.0, std::floor(m * n / 2 - half)));
  const size_t all = logs.size();
  const double middle = (At(logs, (all - 1) / 2) + At(logs, all / 2)) / 2;
  return {std::exp(middle), std::exp(At(logs, cut)), std::exp(At(logs, all - 1 - cut)), confidence};
}

double GreaterP(std::span<const double> a, std::span<const double> b) {
  CHECK(a.size() >= kFewestUnpaired && b.size() >= kFewestUnpaired);
  std::vector<double> both(a.begin(), a.end());
  both.insert(both.end(), b.begin(), b.end());
  std::vector<double> ranks(both.size());
  Ranks(both, ranks);
  const auto m = static_cast<double>(a.size()), n = static_cast<double>(b.size());
  const double sum =
      std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(a.size()), 0.0);
  const double u = sum - m * (m + 1) / 2;
  const double variance = Variance(m, n, std::move(ranks));
  if (!(variance > 0)) return 1;  // all samples are equal
  return UpperTail((u - m * n / 2 - 0.5) / std::sqrt(variance));
}

std::vector<double> HolmAdjusted(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return p[x] < p[y]; });
  std::vector<double> adjusted(p.size());
  double most = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    adjusted[order[i]] = most;
  }
  return adjusted;
}

}  // namespace cupel::stats
