// One pass over an output and its truth: error sums, and which elements are wrong. The output is
// split into fixed chunks that are combined in a fixed order, so the figures do not depend on the
// thread count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "judge/rounding_counter.h"
#include "task/tensor.h"

namespace cupel::judge {

/// Reads a contiguous tensor as doubles. Common types need no table look-up.
class Reader {
 public:
  explicit Reader(const task::Tensor& tensor)
      : dtype_(tensor.dtype), data_(tensor.storage.data() + tensor.offset * SizeOf(tensor.dtype)) {}
  double operator()(int64_t i) const {
    if (dtype_ == DType::kF32) return Load<float>(i);
    if (dtype_ == DType::kF64) return Load<double>(i);
    return LoadAsDouble(dtype_, data_, i);
  }

 private:
  template <typename T>
  double Load(int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(value);
  }
  DType dtype_;
  const std::byte* data_;
};

/// The dtype whose precision an output must have before its last rounding. Any kernel's float8
/// outputs are off by up to half a step, so that rounding does not count: before it, they must be
/// as exact as float16.
inline DType JudgedAs(DType dtype) { return IsFloat8(dtype) ? DType::kF16 : dtype; }

/// How one element is compared.
struct Rule {
  DType dtype = DType::kF32;
  bool exact = false;        // integers: bytes must be equal
  double limit = 0;          // otherwise ErrorOf(got, wanted) <= limit
  double infinite_from = 0;  // |wanted| from this value on rounds to infinity in the dtype
  /// An error of at most this share of the element is rounding to the dtype and never wrong, even
  /// if the element is much larger than the others. Nonzero only for 16-bit and 8-bit types.
  double rounding = 0;
  bool counts_rounding = false;  // Totals::rounding is wanted
  /// |got - wanted|. For float8: the distance from `wanted` to the nearest number that is rounded
  /// to `got`. Near a tie, both neighbours are right.
  double ErrorOf(double got, double wanted) const {
    const double error = std::fabs(got - wanted);
    if (!IsFloat8(dtype)) return error;
    const bool away = got == 0 || (wanted - got > 0) == (got > 0);
    return std::fmax(0, error - HalfStep(dtype, got, away));
  }
  bool IsWithin(double error, double wanted) const {
    return error <= limit || error <= rounding * std::fabs(wanted);
  }
};

Rule RuleFor(DType dtype, double limit);

/// `wanted`, replaced by an infinity if the output's dtype rounds it to one.
inline double Rounded(const Rule& rule, double wanted) {
  return std::fabs(wanted) >= rule.infinite_from ? std::copysign(INFINITY, wanted) : wanted;
}

/// Of the numbers between `truth` and `rounded` (task::Output::rounded_truth), the one that is
/// nearest to `value`. `truth` if one of the three is not finite.
inline double NearestBetween(double value, double truth, double rounded) {
  if (!std::isfinite(value) || !std::isfinite(truth) || !std::isfinite(rounded)) return truth;
  return std::clamp(value, std::fmin(truth, rounded), std::fmax(truth, rounded));
}

/// True if both are NaN, or both are the same infinity.
inline bool SameNonFinite(double got, double wanted) {
  if (std::isnan(wanted)) return std::isnan(got);
  return std::isinf(wanted) && got == wanted;
}

struct Totals {
  double sum_squares = 0, max_error = 0, truth_squares = 0;  // over pairs of finite numbers
  int64_t pairs = 0;
  int64_t wrong = 0;
  int64_t non_finite_wrong = 0;      // wrong elements that are NaN or infinite
  std::vector<int64_t> first_wrong;  // at most 5
  RoundingCounter rounding;
};

/// `b` must cover later elements than `a`.
Totals Combine(Totals a, const Totals& b);

class Scanner {
 public:
  /// Both must be contiguous and of equal count. `truth` is float64 or, for exact dtypes, has the
  /// dtype of `got`. With `neighbours` (task::Output), which only exact dtypes have, an element of
  /// one of them is right, too.
  Scanner(const task::Tensor& got, const task::Tensor& truth, const Rule& rule,
          std::span<const task::Tensor> neighbours = {});

  Totals Run(size_t threads) const;
  bool IsWrong(int64_t i) const;
  double got(int64_t i) const { return got_(i); }
  double wanted(int64_t i) const { return Rounded(rule_, truth_(i)); }
  int64_t count() const { return count_; }
  const Rule& rule() const { return rule_; }

 private:
  Totals RunChunk(int64_t begin, int64_t end) const;
  bool HasBytes(int64_t i, const std::byte* wanted) const {
    return std::memcmp(got_bytes_ + i * size_, wanted + i * size_, static_cast<size_t>(size_)) == 0;
  }

  Rule rule_;
  int64_t count_;
  Reader got_, truth_;
  const std::byte* got_bytes_;
  const std::byte* truth_bytes_;
  std::vector<const std::byte*> neighbours_;
  int size_;
};

}  // namespace cupel::judge
