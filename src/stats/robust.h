// Robust statistics of samples: location, spread, and confidence intervals without assumptions on
// the distribution. All functions are pure. NaN in the input is a bug of the caller and aborts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace cupel::stats {

/// An estimate with an interval. `confidence` is the least coverage that the interval achieves.
/// With few samples it is lower than the requested confidence.
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
/// All samples > 0. Sums logarithms, so that nothing overflows.
double GeometricMean(std::span<const double> samples);

/// An interval between two order statistics, from the binomial distribution. It is valid for every
/// distribution of the samples. With fewer than six samples 95 % is not possible: low and high are
/// then the extremes, and `confidence` is their coverage.
Interval MedianInterval(std::span<const double> samples, double confidence = 0.95);

/// Ranks start at 1. Ties share their mean rank.
void Ranks(std::span<const double> samples, std::span<double> ranks);

/// Spearman's rank correlation in [-1, 1], ties allowed. 0 if one side is constant. Sizes equal,
/// >= 2.
double SpearmanRho(std::span<const double> a, std::span<const double> b);

/// P(X <= k) for X ~ Binomial(n, 1/2).
double BinomialHalfCdf(int k, int n);

}  // namespace cupel::stats
