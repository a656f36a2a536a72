// SPDX-License-Identifier: Apache-2.0
#include "judge/evidence.h"

#include <algorithm>

namespace cupel::judge {
namespace {

constexpr int64_t kLongestAxis = 1 << 22;
constexpr int64_t kSample = 4096;

std::vector<Axis> MakeAxes(const std::vector<int64_t>& shape) {
  std::vector<Axis> axes(shape.size());
  int64_t inner = 1;
  for (size_t a = shape.size(); a-- > 0;) {
    axes[a].length = shape[a];
    axes[a].inner = inner;
    if (shape[a] <= kLongestAxis) axes[a].wrong.assign(static_cast<size_t>(shape[a]), 0);
    inner *= shape[a];
  }
  return axes;
}

void NoteWrong(Evidence& e, int64_t i, double got, double wanted) {
  if (e.first_wrong < 0) {
    e.first_wrong = i;
    e.wrong_value = got;
    e.wanted_value = wanted;
  }
  e.wanted_all_same = e.wanted_all_same && wanted == e.wanted_value;
  e.last_wrong = i;
  ++e.wrong;
  e.wrong_zero += got == 0;
  e.wrong_nan += std::isnan(got);
  e.wrong_infinite += std::isinf(got);
  if (got != e.wrong_value && !(std::isnan(got) && std::isnan(e.wrong_value))) {
    e.wrong_all_same = false;
  }
  for (Axis& axis : e.axes) {
    if (!axis.wrong.empty()) ++axis.wrong[static_cast<size_t>(axis.SliceOf(i))];
  }
}

}  // namespace

Evidence Gather(const Scanner& scan, const std::vector<int64_t>& shape) {
  Evidence e;
  e.scan = &scan;
  e.axes = MakeAxes(shape);
  e.count = scan.count();
  double squares = 0, sum = 0, error_sum = 0;
  for (int64_t i = 0; i < e.count; ++i) {
    const double got = scan.got(i), wanted = scan.wanted(i);
    if (scan.IsWrong(i)) NoteWrong(e, i, got, wanted);
    if (!std::isfinite(got) || !std::isfinite(wanted)) continue;
    ++e.pairs;
    squares += wanted * wanted;
    sum += wanted;
    error_sum += got - wanted;
    e.off_pairs += scan.rule().ErrorOf(got, wanted) >
                   2 * UnitRoundoff(JudgedAs(scan.rule().dtype)) * std::fabs(wanted);
    e.got_min = std::min(e.got_min, got);
    e.truth_min = std::min(e.truth_min, wanted);
  }
  if (e.pairs > 0) {
    const double n = static_cast<double>(e.pairs);
    e.truth_rms = std::sqrt(squares / n);
    e.truth_mean = sum / n;
    e.mean_error = error_sum / n;
  }
  const int64_t stride = std::max<int64_t>(1, e.count / kSample);
  for (int64_t i = 0; i < e.count; i += stride) e.some.push_back(i);
  const int64_t wrong_stride = std::max<int64_t>(1, e.wrong / kSample);
  int64_t seen = 0;
  for (int64_t i = 0; i < e.count; ++i) {
    if (scan.IsWrong(i) && seen++ % wrong_stride == 0) e.some_wrong.push_back(i);
  }
  return e;
}

}  // namespace cupel::judge
