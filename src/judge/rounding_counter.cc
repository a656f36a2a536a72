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
/// Small normal numbers are those below so many times the smallest, and right within this share.
constexpr double kSmall = 4;
constexpr double kRight = 1.0 / 16;
/// PyTorch computes in float32 and rounds once if its error is at most this share of the unit
/// roundoff. Half of it is the least error scale of 16-bit types (docs/judging.md).
constexpr double kOneRounding = 0.51;

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
  flushes_ = dtype == DType::kF16;
}

void RoundingCounter::Add(double value, double truth) {
  const double size = std::fabs(truth);
  const double unit = UnitAt(std::fmax(size, smallest_normal_), digits_);
  const double steps = size / unit, nearest = std::nearbyint(steps);
  along_ += (value - std::copysign(nearest * unit, truth)) * truth;
  squares_ += truth * truth;
  ++finite_;
  if (flushes_) CountSmall(value, truth, unit);
  if (size < smallest_normal_ || std::fabs(steps - nearest) < kNear) return;
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

void RoundingCounter::CountSmall(double value, double truth, double unit) {
  const double size = std::fabs(truth);
  if (size >= kSmall * smallest_normal_ || size < kFarFromZero * unit) return;
  if (size < smallest_normal_) {
    ++counts_.subnormal;
    counts_.flushed += value == 0;
    return;
  }
  ++counts_.least_normal;
  counts_.least_right += std::fabs(value - truth) <= kRight * size;
}

void RoundingCounter::Add(const RoundingCounter& other) {
  along_ += other.along_;
  squares_ += other.squares_;
  finite_ += other.finite_;
  counts_.AddCounts(other.counts_);
  if (digits_ != 0) return;
  digits_ = other.digits_;
  counts_.roundoff = other.counts_.roundoff;
}

records::RoundedResults RoundingCounter::Results(double error_scale) const {
  records::RoundedResults results = counts_;
  const double rms = finite_ > 0 ? std::sqrt(squares_ / static_cast<double>(finite_)) : 0;
  if (error_scale > kOneRounding * counts_.roundoff * rms) {
    results.count = results.above = results.outward = 0;
    results.beyond_half = results.beyond_one = 0;
    return results;
  }
  results.bias = squares_ > 0 ? along_ / squares_ : 0;
  return results;
}

}  // namespace cupel::judge
