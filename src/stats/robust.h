// Robust statistics of samples: location, spread, confidence intervals without assumptions on the
// distribution. All are pure; NaN in the input is a caller's bug and aborts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace cupel::stats {

/// An estimate with an interval. `confidence` is what the interval really covers at least, which
/// for few samples is below what was asked for.
struct Interval {
  double estimate = 0;
  double low = 0, high = 0;
  double confidence = 0;
};

/// Linear interpolation between order statistics (R's type 7). q in [0, 1]; samples not empty.
double Quantile(std::span<const double> samples, double q);
double Median(std::span<const double> samples);
double Mean(std::span<const double> samples);
/// Median absolute deviation times 1.4826, which estimates the standard deviation of normal
/// samples.
double Mad(std::span<const double> samples);
/// All samples > 0. Summed as logarithms, so that nothing overflows.
double GeometricMean(std::span<const double> samples);

/// Between two order statistics, from the binomial distribution: holds for every distribution.
/// Below six samples 95 % cannot be had; then low and high are the extremes and `confidence` says
/// what they give.
Interval MedianInterval(std::span<const double> samples, double confidence = 0.95);

/// Ranks from 1, ties share their mean.
void Ranks(std::span<const double> samples, std::span<double> ranks);

/// Spearman's rank correlation in [-1, 1], ties allowed; 0 when one side is constant. Sizes equal,
/// >= 2.
double SpearmanRho(std::span<const double> a, std::span<const double> b);

/// P(X <= k) for X ~ Binomial(n, 1/2).
double BinomialHalfCdf(int k, int n);

}  // namespace cupel::stats
