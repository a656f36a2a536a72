// SPDX-License-Identifier: Apache-2.0
#include "judge/shadow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "judge/scan.h"

namespace cupel::judge {
namespace {

/// Shadows of two orders may differ by the rounding of doubles in long sums.
constexpr double kOrderShare = 0x1p-30;
/// A kernel computes in a shorter format if its own rounding exceeds this many unit roundoffs of
/// float32 (or a few of a half that it returns), and this many times the effect of perturbed
/// inputs. The longest sums in float32 reach a tenth of this; halves and tf32 reach ten times as
/// much.
constexpr double kReducedUlps = 512;
constexpr double kReducedConditions = 128;
constexpr double kReducedHalfUlps = 4;

double RmsOf(const Reader& truth, int64_t count) {
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double t = truth(i);
    if (!std::isfinite(t)) continue;
    sum += t * t;
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(sum / static_cast<double>(finite));
}

/// True for NaN and NaN, for equal infinities, or for two numbers within `limit`.
bool Agree(double shadow, double truth, double limit) {
  if (std::isnan(truth) || std::isinf(truth)) return SameNonFinite(shadow, truth);
  return std::fabs(shadow - truth) <= limit;
}

/// Which shadows of an element agree with its truth.
class Agreement {
 public:
  /// Rounding a constant moves the output by more than a share of its scale only if the task itself
  /// is badly conditioned.
  Agreement(double scale, const task::Output& want)
      : whole_(std::fmax(kShadowShare * scale, want.conditioning)) {
    if (want.rounded_truth) rounded_.emplace(*want.rounded_truth);
  }

  /// Of the whole output.
  double limit() const { return whole_; }

  /// `truth` of the element at index `i`.
  bool Holds(double shadow, double truth, int64_t i) const {
    return Agree(shadow, Nearest(shadow, truth, i), At(truth));
  }
  /// What lies between the truths of exact and of rounded numbers, and is nearest to `value`.
  double Nearest(double value, double truth, int64_t i) const {
    return rounded_ ? NearestBetween(value, truth, (*rounded_)(i)) : truth;
  }

 private:
  /// For an output with peaks (softmax, exponentials), the rounding of a constant moves each peak
  /// by the same share of its value.
  double At(double truth) const { return std::fmax(whole_, kShadowShare * std::fabs(truth)); }

  double whole_ = 0;
  std::optional<Reader> rounded_;  // Output::rounded_truth
};

/// The errors of values whose shadows were reset, in an output of 16 bits. Correct rounding has no
/// preferred direction, and is at most a unit; a kernel that also rounds intermediate results makes
/// a few times that.
class ResetErrors {
 public:
  void Add(double value, double truth) {
    if (!std::isfinite(value) || !std::isfinite(truth)) return;
    const double error = value - truth, square = truth * truth;
    ++count_;
    along_ += error * truth;
    errors_ += error * error;
    squares_ += square;
    fourths_ += square * square;
  }

  /// What is wrong with them, or an empty string. `conditioning`: relative to the output's scale.
  std::string Unexplained(DType dtype, double conditioning) const {
    constexpr int64_t kFewest = 64;
    constexpr double kMostBias = 0.75, kDeviations = 6, kMostUnits = 4;
    if (count_ < kFewest || squares_ <= 0) return "";
    const double u = UnitRoundoff(dtype);
    const double bias = along_ / squares_;
    const double noise = u / std::sqrt(3.0) * std::sqrt(fourths_) / squares_;
    const double most = kReducedConditions * conditioning;
    if (std::fabs(bias) > std::fmax(kMostBias * u + kDeviations * noise, most)) {
      return fmt::format("they are {:.2g} % too {} on average, and rounding to {} has no such bias",
                         100 * std::fabs(bias), bias > 0 ? "large" : "small", Name(dtype));
    }
    const double rms = std::sqrt(errors_ / squares_);
    if (rms > std::fmax(kMostUnits * u, most)) {
      return fmt::format("their error is {:.2g} % (RMS), and rounding to {} makes {:.2g} %",
                         100 * rms, Name(dtype), 100 * u / std::sqrt(3.0));
    }
    return "";
  }

 private:
  int64_t count_ = 0;
  double along_ = 0, errors_ = 0, squares_ = 0, fourths_ = 0;
};

bool HasShadows(const engine::OutputTensor& got, const task::Output& want) {
  return !want.is_none && !got.is_none && IsFloating(want.dtype) && want.truth.numel() != 0 &&
         got.shadow.size() == static_cast<size_t>(want.truth.numel());
}

template <class T>
void PutNumber(double number, std::vector<std::byte>& bytes, size_t at) {
  const auto value = static_cast<T>(number);
  std::memcpy(bytes.data() + at * sizeof(T), &value, sizeof(T));
}

}  // namespace

ShadowComparison CompareShadows(const engine::OutputTensor& got, const task::Output& want) {
  ShadowComparison c;
  const int64_t count = want.truth.numel();
  if (!HasShadows(got, want)) return c;
  c.judged = true;
  c.count = count;
  const Reader truth(want.truth);
  const task::Tensor view = got.View();
  const Reader value(view);
  c.causes = got.shadow_causes;
  c.scale = RmsOf(truth, count);
  const Agreement agreement(c.scale, want);
  c.limit = agreement.limit();
  double own = 0;
  int64_t own_count = 0;
  ResetErrors reset_errors;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const double shadow = got.shadow[at], t = truth(i);
    const uint8_t state = got.shadow_state[at];
    const bool reset = (state & engine::kShadowReset) != 0;
    // Three digits are so few that a task may mean them, unless it says so by a float8 type.
    const bool small = (state & engine::kShadowSmall) != 0 && !want.rounds_to_float8;
    const bool branch = (state & engine::kShadowBranch) != 0 || small;
    const double rounding = std::fabs(value(i) - shadow);
    if (!reset && std::isfinite(rounding)) {
      own += rounding * rounding;
      ++own_count;
      c.own_max = std::fmax(c.own_max, rounding);
      if (std::isfinite(t)) c.largest = std::fmax(c.largest, std::fabs(shadow - t));
    }
    const bool agrees = agreement.Holds(shadow, t, i);
    if (agrees && !reset) {
      ++c.equal;
    } else if (reset) {
      ++c.reset;
      if (!branch) reset_errors.Add(value(i), agreement.Nearest(value(i), t, i));
    } else if (branch || !std::isfinite(shadow)) {
      ++c.doubtful;
    } else {
      if (c.disagree++ == 0) {
        c.first = task::IndexOf(i, want.shape);
        c.first_shadow = shadow;
        c.first_truth = t;
      }
    }
  }
  const double scale = c.scale > 0 ? c.scale : 1;
  c.own_rms = own_count == 0 ? 0 : std::sqrt(own / static_cast<double>(own_count)) / scale;
  c.own_max /= scale;
  const double ulps = UnitRoundoff(want.dtype) > 0x1p-20
                          ? kReducedHalfUlps * UnitRoundoff(want.dtype)
                          : kReducedUlps * 0x1p-24;
  const double usual = std::fmax(ulps, kReducedConditions * want.conditioning / scale);
  if (UnitRoundoff(want.dtype) > 0x1p-20 && !want.rounds_to_float8) {
    c.unexplained = reset_errors.Unexplained(want.dtype, want.conditioning / scale);
  }
  c.reduced_precision = !want.rounds_to_float8 && c.scale > 0 && c.own_rms > usual;
  return c;
}

std::vector<std::byte> BytesWithAgreeingShadows(const engine::OutputTensor& got,
                                                const task::Output& want) {
  std::vector<std::byte> bytes = got.bytes;
  const bool is_single = want.dtype == DType::kF32;
  if (!HasShadows(got, want) || got.dtype != want.dtype ||
      (!is_single && want.dtype != DType::kF64) ||
      bytes.size() != got.shadow.size() * static_cast<size_t>(SizeOf(got.dtype))) {
    return bytes;
  }
  const Reader truth(want.truth);
  const Agreement agreement(RmsOf(truth, want.truth.numel()), want);
  for (size_t i = 0; i < got.shadow.size(); ++i) {
    const double shadow = got.shadow[i];
    const auto at = static_cast<int64_t>(i);
    if (!agreement.Holds(shadow, truth(at), at)) continue;
    is_single ? PutNumber<float>(shadow, bytes, i) : PutNumber<double>(shadow, bytes, i);
  }
  return bytes;
}

std::string DisagreementText(const ShadowComparison& c) {
  return fmt::format(
      "the kernel does not compute the task's function, even without rounding: in exact arithmetic "
      "it gives {:.9g} at [{}] instead of {:.9g} ({} of {} elements differ, the largest difference "
      "is {:.3g}, and float32 constants allow {:.3g}). A term is dropped, approximated or "
      "hard-coded",
      c.first_shadow, fmt::join(c.first, ", "), c.first_truth, c.disagree, c.count, c.largest,
      c.limit);
}

int64_t FirstOrderDependence(const engine::OutputTensor& a, const engine::OutputTensor& b) {
  if (a.is_none || b.is_none || a.bytes.size() != b.bytes.size()) return -1;
  const auto size = static_cast<size_t>(SizeOf(a.dtype));
  const size_t count = a.bytes.size() / size;
  if (a.shadow.size() != count || b.shadow.size() != count) return -1;
  double sum = 0;
  for (double shadow : a.shadow) sum += std::isfinite(shadow) ? shadow * shadow : 0;
  const double limit =
      kOrderShare * std::sqrt(sum / static_cast<double>(std::max<size_t>(count, 1)));
  for (size_t i = 0; i < count; ++i) {
    if (a.shadow_state[i] != 0 || b.shadow_state[i] != 0) continue;
    if (!IsFloating(a.dtype)) {
      if (std::memcmp(a.bytes.data() + i * size, b.bytes.data() + i * size, size) != 0) {
        return static_cast<int64_t>(i);
      }
      continue;
    }
    const double x = a.shadow[i], y = b.shadow[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    if (!(std::fabs(x - y) <= std::fmax(limit, kOrderShare * std::fabs(x))))
      return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace cupel::judge
