// SPDX-License-Identifier: Apache-2.0
#include "judge/rounding_counter.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace cupel::judge {
namespace {

/// Closer to a number of the type than this share of a unit, an element says nothing: float32
/// arithmetic may move it to the other side.
constexpr double kNear = 1.0 / 32;
/// Errors of correct rounding exceed half a unit by the error of the value before the rounding.
constexpr double kMargin = 1.0 / 32;
/// A subnormal truth counts from this many of the smallest numbers on.
constexpr double kFarFromZero = 4;

constexpr int kDoubleDigits = 52;
constexpr uint64_t kExponent = 0x7ff;

/// The distance of neighbouring numbers with `digits` explicit bits at `number`, a double far from
/// the smallest ones.
double UnitAt(double number, int digits) {
  const uint64_t exponent = std::bit_cast<uint64_t>(number) >> kDoubleDigits & kExponent;
  return std::bit_cast<double>((exponent - static_cast<uint64_t>(digits)) << kDoubleDigits);
}

}  // namespace

RoundingCounter::RoundingCounter(DType dtype) {
  if (dtype != DType::kF16 && dtype != DType::kBF16) return;
  counts_.roundoff = UnitRoundoff(dtype);
  digits_ = -std::ilogb(counts_.roundoff) - 1;
  smallest_normal_ = SmallestNormal(dtype);
}

void RoundingCounter::Add(double value, double truth) {
  along_ += (value - truth) * truth;
  squares_ += truth * truth;
  const double size = std::fabs(truth);
  const double unit = UnitAt(std::fmax(size, smallest_normal_), digits_);
  if (size < smallest_normal_) {
    if (size < kFarFromZero * unit) return;
    ++counts_.subnormal;
    counts_.flushed += value == 0;
    return;
  }
  const double steps = size / unit;
  if (std::fabs(steps - std::nearbyint(steps)) < kNear) return;
  ++counts_.count;
  counts_.above += value > truth;
  counts_.outward += std::fabs(value) > size;
  const double error = std::fabs(value - truth) / unit;
  if (error > 1 + kMargin) {
    ++counts_.beyond_one;
  } else if (error > 0.5 + kMargin) {
    ++counts_.beyond_half;
  }
}

void RoundingCounter::Add(const RoundingCounter& other) {
  along_ += other.along_;
  squares_ += other.squares_;
  counts_.count += other.counts_.count;
  counts_.above += other.counts_.above;
  counts_.outward += other.counts_.outward;
  counts_.beyond_half += other.counts_.beyond_half;
  counts_.beyond_one += other.counts_.beyond_one;
  counts_.subnormal += other.counts_.subnormal;
  counts_.flushed += other.counts_.flushed;
  if (digits_ != 0) return;
  digits_ = other.digits_;
  counts_.roundoff = other.counts_.roundoff;
}

records::RoundedResults RoundingCounter::Results() const {
  records::RoundedResults results = counts_;
  results.bias = squares_ > 0 ? along_ / squares_ : 0;
  return results;
}

}  // namespace cupel::judge
