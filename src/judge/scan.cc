// SPDX-License-Identifier: Apache-2.0
#include "judge/scan.h"

#include <algorithm>

#include "base/lanes.h"

namespace cupel::judge {
namespace {

constexpr int64_t kChunk = 1 << 16;
constexpr size_t kFirstWrong = 5;

/// The smallest number that rounds to infinity: half a step above the largest finite number.
double InfiniteFrom(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65520;
    case DType::kF32:
      return 0x1.ffffffp127;
    case DType::kBF16:
      return 0x1.ffp127;
    case DType::kF8E5M2:
      return 61440;
    default:
      return INFINITY;
  }
}

Totals CombineRange(const std::vector<Totals>& parts, size_t begin, size_t end) {
  if (end - begin == 1) return parts[begin];
  const size_t middle = begin + (end - begin) / 2;
  return Combine(CombineRange(parts, begin, middle), CombineRange(parts, middle, end));
}

const std::byte* FirstByte(const task::Tensor& tensor) {
  return tensor.storage.data() + tensor.offset * SizeOf(tensor.dtype);
}

}  // namespace

Totals Combine(Totals a, const Totals& b) {
  a.sum_squares += b.sum_squares;
  a.truth_squares += b.truth_squares;
  a.max_error = std::max(a.max_error, b.max_error);
  a.pairs += b.pairs;
  a.wrong += b.wrong;
  a.non_finite_wrong += b.non_finite_wrong;
  a.rounding.Add(b.rounding);
  for (int64_t index : b.first_wrong) {
    if (a.first_wrong.size() < kFirstWrong) a.first_wrong.push_back(index);
  }
  return a;
}

Rule RuleFor(DType dtype, double limit) {
  constexpr double kMargin = 1 + 0x1p-8;  // the value before the rounding was not exact either
  double rounding = 0;
  const DType judged = JudgedAs(dtype);
  if (judged == DType::kF16 || judged == DType::kBF16) rounding = UnitRoundoff(judged) * kMargin;
  return {dtype, !IsFloating(dtype), limit, InfiniteFrom(dtype), rounding, false};
}

Scanner::Scanner(const task::Tensor& got, const task::Tensor& truth, const Rule& rule,
                 std::span<const task::Tensor> neighbours)
    : rule_(rule),
      count_(1),
      got_(got),
      truth_(truth),
      got_bytes_(FirstByte(got)),
      truth_bytes_(FirstByte(truth)),
      size_(SizeOf(got.dtype)) {
  for (int64_t extent : got.shape) count_ *= extent;
  for (const task::Tensor& neighbour : neighbours) neighbours_.push_back(FirstByte(neighbour));
}

bool Scanner::IsWrong(int64_t i) const {
  if (rule_.exact) {
    return !HasBytes(i, truth_bytes_) &&
           std::none_of(neighbours_.begin(), neighbours_.end(),
                        [&](const std::byte* neighbour) { return HasBytes(i, neighbour); });
  }
  const double g = got_(i), w = wanted(i);
  if (!std::isfinite(g) || !std::isfinite(w)) return !SameNonFinite(g, w);
  return !rule_.IsWithin(rule_.ErrorOf(g, w), w);
}

Totals Scanner::RunChunk(int64_t begin, int64_t end) const {
  Totals totals;
  if (rule_.counts_rounding) totals.rounding = RoundingCounter(rule_.dtype);
  const bool counts = totals.rounding.counts();
  const auto wrong = [&](int64_t i) {
    ++totals.wrong;
    if (totals.first_wrong.size() < kFirstWrong) totals.first_wrong.push_back(i);
  };
  for (int64_t i = begin; i < end; ++i) {
    const double g = got_(i), w = wanted(i);
    if (!std::isfinite(g) || !std::isfinite(w)) {
      if (SameNonFinite(g, w)) continue;
      wrong(i);
      // A finite number instead of infinity is a wrong result, but not a non-finite one.
      if (!std::isfinite(g)) ++totals.non_finite_wrong;
      continue;
    }
    if (counts) totals.rounding.Add(g, w);
    const bool exact_wrong = rule_.exact && IsWrong(i);
    // A neighbour at a tie is no error.
    const double error = rule_.exact && !exact_wrong ? 0 : rule_.ErrorOf(g, w);
    totals.sum_squares += error * error;
    totals.truth_squares += w * w;
    ++totals.pairs;
    const bool is_wrong = rule_.exact ? exact_wrong : !rule_.IsWithin(error, w);
    if (is_wrong) wrong(i);
    // An error beyond the limit that is still allowed does not count towards the largest error.
    if (is_wrong || error <= rule_.limit || rule_.exact) {
      totals.max_error = std::max(totals.max_error, error);
    }
  }
  return totals;
}

Totals Scanner::Run(size_t threads) const {
  const int64_t chunks = (count_ + kChunk - 1) / kChunk;
  if (chunks == 0) return {};
  std::vector<Totals> parts(static_cast<size_t>(chunks));
  (void)ForEachOnLanes(threads, parts.size(), [&](size_t, size_t chunk) -> Status {
    const int64_t begin = static_cast<int64_t>(chunk) * kChunk;
    parts[chunk] = RunChunk(begin, std::min(count_, begin + kChunk));
    return {};
  });
  return CombineRange(parts, 0, parts.size());
}

}  // namespace cupel::judge
