// SPDX-License-Identifier: Apache-2.0
#include "stats/difference.h"

#include "stats/paired.h"

namespace cupel::stats {
namespace {

constexpr double kIndifference = 0.005;

}  // namespace

std::string_view Name(Difference difference) {
  switch (difference) {
    case Difference::kFaster:
      return "faster";
    case Difference::kSlower:
      return "slower";
    case Difference::kNone:
      break;
  }
  return "no difference";
}

Compared CompareTimes(std::span<const double> a, std::span<const double> b, double absolute,
                      double confidence) {
  Compared compared;
  compared.ratio = PairedRatio(a, b, confidence);
  const double margin = kIndifference + absolute / Median(b);
  // With too few pairs there is no interval of this confidence, so no verdict either.
  if (compared.ratio.confidence < confidence) return compared;
  if (compared.ratio.high < 1 - margin) compared.difference = Difference::kFaster;
  if (compared.ratio.low > 1 + margin) compared.difference = Difference::kSlower;
  return compared;
}

}  // namespace cupel::stats
