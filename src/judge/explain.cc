// SPDX-License-Identifier: Apache-2.0
#include "judge/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace cupel::judge {
namespace {

Explanation FromFill(const Evidence& e, const Fill& fill) {
  // Memory that nothing writes is not zero, unless the candidate has cleared it.
  const char* why = fill.pattern == "all_zero"
                        ? "zeros were stored, or cleared memory was not written"
                        : "probably never written, or computed from uninitialized memory";
  if (e.wrong == e.count && e.count > 1) {
    return {fill.pattern, fmt::format("the whole output is {}: {}", fill.text, why)};
  }
  const auto place = FindPlace(e);
  if (!place) return {fill.pattern, fmt::format("all of them are {}", fill.text)};
  return {place->pattern,
          fmt::format("{}; all wrong ones are {}: {}", place->text, fill.text, why)};
}

/// The share of the squared error that is the mean error of each slice of an axis.
double ShareOfSlices(const Evidence& e, const Axis& axis, double squares) {
  std::vector<double> sum(static_cast<size_t>(axis.length));
  for (int64_t i = 0; i < e.count; ++i) {
    sum[static_cast<size_t>(axis.SliceOf(i))] += e.scan->got(i) - e.scan->wanted(i);
  }
  const double each = static_cast<double>(e.count) / static_cast<double>(axis.length);
  double of_means = 0;
  for (const double s : sum) of_means += s * s / each;
  return squares > 0 ? of_means / squares : 0;
}

/// The results are bfloat16 numbers, perhaps truncated.
bool AreBfloat16(const Evidence& e) {
  return std::ranges::all_of(e.some, [&](int64_t i) {
    return (std::bit_cast<uint32_t>(static_cast<float>(e.scan->got(i))) & 0xffffu) == 0;
  });
}

/// Rounding errors have both signs and follow neither rows nor columns; those of a wrong formula
/// do.
bool LooksLikeRounding(const Evidence& e, double rms_error) {
  constexpr double kShare = 0.3;
  if (AreBfloat16(e)) return true;
  if (e.mean_error * e.mean_error > kShare * rms_error * rms_error) return false;
  double squares = 0;
  for (int64_t i = 0; i < e.count; ++i) {
    const double error = e.scan->got(i) - e.scan->wanted(i);
    squares += error * error;
  }
  return std::ranges::all_of(e.axes, [&](const Axis& axis) {
    // Of independent errors, this share is in the means by chance.
    const double by_chance = static_cast<double>(axis.length) / static_cast<double>(e.count);
    return by_chance > kShare || ShareOfSlices(e, axis, squares) < kShare + by_chance;
  });
}

/// Errors everywhere, none of them far out, all small compared with the output: rounding, not
/// logic.
std::optional<Explanation> LostPrecision(const Evidence& e, double rms_error) {
  if (e.scan->rule().exact || e.pairs != e.count || e.count < 64 || e.truth_rms == 0) return {};
  const double relative = rms_error / e.truth_rms;
  if (!(relative > 0 && relative < 0x1p-6) || e.off_pairs * 2 < e.count) return {};
  double largest = 0;
  for (int64_t i : e.some_wrong) {
    largest = std::max(largest, e.scan->rule().ErrorOf(e.scan->got(i), e.scan->wanted(i)));
  }
  if (largest > 30 * rms_error) return {};
  const double bits = -std::log2(relative);
  if (!LooksLikeRounding(e, rms_error)) {
    return Explanation{
        "approximation",
        fmt::format("errors of about 2^-{:.0f} of the output's scale everywhere, which do not look "
                    "like rounding: a small term is missing or wrong, or a formula only "
                    "approximates the task's",
                    bits)};
  }
  const bool wide = e.scan->rule().dtype == DType::kF32 || e.scan->rule().dtype == DType::kF64;
  if (wide && bits < 10 && bits > 7) {
    return Explanation{"reduced_precision",
                       fmt::format("errors of about 2^-{:.0f} of the output's scale everywhere, "
                                   "typical of bfloat16 arithmetic",
                                   bits)};
  }
  if (wide && bits >= 10 && bits < 13.5) {
    return Explanation{"reduced_precision",
                       fmt::format("errors of about 2^-{:.0f} of the output's scale everywhere, "
                                   "typical of tf32, half precision or an .approx instruction",
                                   bits)};
  }
  return Explanation{
      "lost_precision",
      fmt::format("errors of about 2^-{:.0f} of the output's scale everywhere: rounding, "
                  "cancellation, or a formula that only approximates the task's",
                  bits)};
}

std::optional<Explanation> Isolated(const Evidence& e) {
  if (e.count < 1000 || e.wrong > std::max<int64_t>(5, e.count / 1000)) return {};
  return Explanation{
      "isolated",
      fmt::format("they are isolated among correct ones: {}",
                  e.scan->rule().exact ? "ties, a boundary, or a race"
                                       : "a boundary, a race, or cancellation of large numbers")};
}

/// Numbers too large for a float8 type: casts saturate, or give NaN or an infinity.
std::optional<Explanation> OtherOverflow(const Evidence& e) {
  const DType dtype = e.scan->rule().dtype;
  if (!IsFloat8(dtype)) return {};
  const double largest = LargestFinite(dtype);
  const auto is_finite_end = [&](double x) { return std::fabs(x) == largest; };
  int64_t saturated = 0, lost = 0;
  for (int64_t i : e.some_wrong) {
    const double got = e.scan->got(i), wanted = e.scan->wanted(i);
    saturated += is_finite_end(got) && !std::isfinite(wanted);
    lost += is_finite_end(wanted) && !std::isfinite(got);
  }
  const auto all = static_cast<int64_t>(e.some_wrong.size());
  if (saturated == all) {
    return Explanation{
        "saturated", fmt::format("the kernel saturates at {:g}, but PyTorch's cast to {} gives {} "
                                 "for numbers too large: convert without satfinite",
                                 largest, Name(dtype),
                                 std::isnan(e.scan->wanted(e.first_wrong)) ? "NaN" : "infinity")};
  }
  if (lost == all) {
    return Explanation{"not_saturated",
                       fmt::format("PyTorch's result is {:g}, the largest {}: the kernel does not "
                                   "clamp or saturate numbers that are too large",
                                   largest, Name(dtype))};
  }
  return {};
}

/// A float8 output that is rounded toward zero.
std::optional<Explanation> TowardZero(const Evidence& e) {
  const DType dtype = e.scan->rule().dtype;
  if (!IsFloat8(dtype) || e.wrong < 8 || e.pairs != e.count) return {};
  constexpr double kMargin = 0x1p-10;  // of the number before its rounding
  const auto is_truncated = [&](int64_t i) {
    const double got = e.scan->got(i), wanted = e.scan->wanted(i);
    const double margin = kMargin * std::fabs(wanted);
    const double more = std::fabs(wanted) - std::fabs(got);
    return got * wanted >= 0 && more >= -margin && more <= 2 * HalfStep(dtype, got, true) + margin;
  };
  if (!std::all_of(e.some.begin(), e.some.end(), is_truncated) ||
      !std::all_of(e.some_wrong.begin(), e.some_wrong.end(), is_truncated)) {
    return {};
  }
  return Explanation{"truncated", "the output is rounded toward zero, not to the nearest number"};
}

/// A single number has no pattern, but a round ratio to the truth is worth reporting.
std::optional<Explanation> LoneFactor(const Evidence& e) {
  if (e.count != 1 || e.pairs != 1 || e.scan->wanted(0) == 0) return {};
  const double factor = e.scan->got(0) / e.scan->wanted(0);
  const double size = std::fabs(factor) < 1 ? 1 / factor : factor;
  if (std::fabs(size) > 1e6 || std::fabs(size - std::round(size)) > 1e-4 * std::fabs(size))
    return {};
  return Explanation{"factor", "it is " + DescribeMultiple(factor, e.axes)};
}

}  // namespace

std::optional<Fill> FindFill(const Evidence& e) {
  if (e.wrong == e.wrong_zero) return Fill{"all_zero", "zero"};
  if (e.wrong == e.wrong_nan) return Fill{"all_nan", "NaN"};
  if (e.wrong == e.wrong_infinite) return Fill{"all_infinite", "infinite"};
  // With constant inputs, the correct answer may also be a single number.
  if (e.wrong_all_same && !e.wanted_all_same && e.wrong >= 8) {
    return Fill{"constant", fmt::format("the same number {:.9g}", e.wrong_value)};
  }
  return {};
}

Explanation ExplainRms(const Scanner& scan, const std::vector<int64_t>& shape, double rms_error) {
  return LostPrecision(Gather(scan, shape), rms_error).value_or(Explanation());
}

Explanation Explain(const Scanner& scan, const std::vector<int64_t>& shape, double rms_error) {
  const Evidence e = Gather(scan, shape);
  if (e.wrong == 0) return {};
  if (auto overflow = OtherOverflow(e)) return *overflow;
  if (auto truncated = TowardZero(e)) return *truncated;
  if (auto lone = LoneFactor(e)) return *lone;
  if (auto relu = ExplainExtraRelu(e)) return *relu;
  if (const auto fill = FindFill(e)) return FromFill(e, *fill);
  if (auto value = ExplainByValue(e)) return *value;
  if (auto place = FindPlace(e)) return {place->pattern, place->text};
  if (auto precision = LostPrecision(e, rms_error)) return *precision;
  if (auto isolated = Isolated(e)) return *isolated;
  if (e.wrong_nan > 0 && e.wrong_nan < e.wrong) {
    return {"some_nan", fmt::format("{} of them are NaN", e.wrong_nan)};
  }
  return {};
}

}  // namespace cupel::judge
