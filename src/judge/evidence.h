// What a wrong output shows, gathered in one pass for explain.cc: the positions of the wrong
// elements along each axis, their values, and evenly spread samples for testing hypotheses cheaply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "judge/scan.h"

namespace cupel::judge {

struct Axis {
  int64_t length = 1;
  int64_t inner = 1;           // elements between neighbours along this axis
  std::vector<int64_t> wrong;  // wrong elements in each slice; empty if the axis is too long
  int64_t SliceOf(int64_t element) const { return element / inner % length; }
};

struct Evidence {
  const Scanner* scan = nullptr;
  std::vector<Axis> axes;
  int64_t count = 0, wrong = 0;
  int64_t first_wrong = -1, last_wrong = -1;  // row-major
  int64_t wrong_zero = 0, wrong_nan = 0, wrong_infinite = 0;
  bool wrong_all_same = true;   // all wrong elements have the same value
  bool wanted_all_same = true;  // all wrong elements have the same expected value
  double wanted_value = 0;      // of the first wrong element
  double wrong_value = 0;       // of the first wrong element
  double truth_rms = 0, truth_mean = 0, mean_error = 0;  // over finite pairs
  double got_min = INFINITY, truth_min = INFINITY;       // over finite pairs
  int64_t pairs = 0, off_pairs = 0;                      // off: more than 2 roundoffs off
  std::vector<int64_t> some, some_wrong;                 // samples, ascending

  int64_t row_length() const { return axes.empty() ? 1 : axes.back().length; }
};

Evidence Gather(const Scanner& scan, const std::vector<int64_t>& shape);

/// True if got == predict(i), within the tolerance times `slack`, at 99 % of the elements for which
/// predict returns a number, and at 99 % of the wrong ones. Samples are checked first, so that a
/// hypothesis that fails costs little.
template <typename Predict>
bool Fits(const Evidence& e, double slack, Predict predict) {
  const Scanner& scan = *e.scan;
  const double tolerance = scan.rule().exact ? 0 : scan.rule().limit * std::fmax(1, slack);
  const auto agrees = [&](int64_t i) -> std::optional<bool> {
    const std::optional<double> p = predict(i);
    if (!p) return std::nullopt;
    const double got = scan.got(i), left = scan.rule().ErrorOf(got, *p);
    if (!(left <= tolerance + 1e-5 * std::fabs(*p))) return false;
    // Near the limit, the tolerance alone would let anything fit: the prediction must also explain
    // most of the error.
    return !scan.IsWrong(i) || !(left > 0.25 * scan.rule().ErrorOf(got, scan.wanted(i)));
  };
  const auto enough = [&](const std::vector<int64_t>& sample) {
    size_t tried = 0, right = 0;
    for (int64_t i : sample) {
      const auto result = agrees(i);
      if (!result) continue;
      ++tried;
      right += *result;
    }
    return tried * 2 > sample.size() && right * 100 >= tried * 97;
  };
  if (!enough(e.some_wrong) || !enough(e.some)) return false;
  int64_t tried = 0, right = 0, wrong_tried = 0, wrong_right = 0;
  for (int64_t i = 0; i < e.count; ++i) {
    const auto result = agrees(i);
    if (!result) continue;
    ++tried;
    right += *result;
    if (scan.IsWrong(i)) {
      ++wrong_tried;
      wrong_right += *result;
    }
  }
  return right * 100 >= tried * 99 && wrong_right * 100 >= wrong_tried * 99;
}

}  // namespace cupel::judge
