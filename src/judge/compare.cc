// SPDX-License-Identifier: Apache-2.0
#include "judge/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/lanes.h"
#include "judge/explain.h"
#include "judge/ranking.h"
#include "judge/scan.h"

namespace cupel::judge {
namespace {

constexpr int64_t kWorthThreads = 1 << 20;
constexpr size_t kMostListed = 5;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The number of elements when `tensor` is contiguous, in bounds and of sensible size; else -1.
int64_t UsableCount(const task::Tensor& tensor) {
  if (static_cast<int>(tensor.shape.size()) > task::kMaxDims || tensor.offset < 0) return -1;
  const auto room = static_cast<int64_t>(tensor.storage.size()) / SizeOf(tensor.dtype);
  const auto& shape = tensor.shape;
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) return -1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent > room / count) return -1;
    count *= extent;
  }
  if (tensor.offset > room - count) return -1;
  int64_t expected = 1;
  for (size_t a = tensor.shape.size(); a-- > 0;) {
    if (a < tensor.strides.size() && tensor.shape[a] != 1 && tensor.strides[a] != expected)
      return -1;
    expected *= tensor.shape[a];
  }
  return count;
}

records::Comparison Refuse(std::string code, std::string message) {
  records::Comparison result;
  result.code = std::move(code);
  result.message = std::move(message);
  return result;
}

/// What is wrong with the case itself, or an empty string.
std::string CaseProblem(const task::Output& want) {
  const bool exact = !IsFloating(want.dtype);
  if (want.truth.shape != want.shape || UsableCount(want.truth) < 0) {
    return "the case's truth has the wrong shape";
  }
  if (want.truth.dtype != (exact ? want.dtype : DType::kF64)) {
    return "the case's truth has the wrong dtype";
  }
  for (const task::Tensor& neighbour : want.neighbours) {
    if (!exact || neighbour.dtype != want.dtype || neighbour.shape != want.shape ||
        UsableCount(neighbour) < 0) {
      return "the case's neighbours have the wrong dtype or shape";
    }
  }
  if (!exact && !(std::isfinite(want.error_scale) && want.error_scale >= 0)) {
    return fmt::format("the case's error scale is {}", want.error_scale);
  }
  return "";
}

/// For float8, errors are counted from the numbers that are rounded to the output's.
std::string BeyondRounding(const Rule& rule) {
  return IsFloat8(rule.dtype) ? fmt::format(" beyond rounding to {}", Name(rule.dtype)) : "";
}

std::string ErrorText(const records::Comparison& c, const Rule& rule, const Totals& totals,
                      bool only_rms) {
  const char* noun = c.count == 1 ? "element is" : "elements are";
  std::string text = fmt::format("{} of {} {} wrong", c.wrong_count, c.count, noun);
  if (only_rms) {
    return fmt::format("the RMS error{} is {:.3g}, the limit is {:.3g}", BeyondRounding(rule),
                       c.rms_error, c.rms_limit);
  }
  if (totals.non_finite_wrong > 0) {
    text += fmt::format(", {} of them NaN or infinite", totals.non_finite_wrong);
  }
  if (!rule.exact && c.max_error > c.max_limit) {
    text += fmt::format(", the largest error{} is {:.3g} (limit {:.3g})", BeyondRounding(rule),
                        c.max_error, c.max_limit);
  }
  return text;
}

void DescribeErrors(records::Comparison& result, const Scanner& scan, const Totals& totals,
                    bool only_rms, const task::Output& want) {
  for (int64_t element : totals.first_wrong) {
    result.first_wrong.push_back(
        {task::IndexOf(element, want.shape), scan.got(element), scan.wanted(element)});
  }
  const Explanation why = only_rms ? ExplainRms(scan, want.shape, result.rms_error)
                                   : Explain(scan, want.shape, result.rms_error);
  result.pattern = why.pattern;
  const bool named = !want.name.empty() && want.name != "output";
  result.message = fmt::format("{}{}{}{}", named ? want.name + ": " : "",
                               ErrorText(result, scan.rule(), totals, only_rms),
                               why.text.empty() ? "" : ": ", why.text);
}

}  // namespace

double AbsoluteFloor(DType dtype) {
  return JudgedAs(dtype) == DType::kF16 ? 0x1p-24 : SmallestNormal(dtype);
}

namespace {

size_t ThreadsFor(int64_t count) {
  if (count <= kWorthThreads) return 1;
  return Cores();
}

/// The result if elements need not be compared: the output is ignored, or the case or type is
/// wrong.
std::optional<records::Comparison> RefuseByType(const task::Tensor& got, const task::Output& want) {
  if (want.is_none) {
    records::Comparison result;
    result.ok = true;
    return result;
  }
  if (std::string problem = CaseProblem(want); !problem.empty()) {
    return Refuse("broken_case", std::move(problem));
  }
  if (got.dtype != want.dtype) {
    return Refuse("wrong_dtype",
                  fmt::format("the output is {}, expected {}", Name(got.dtype), Name(want.dtype)));
  }
  if (got.shape != want.shape) {
    return Refuse("wrong_shape", fmt::format("the output's shape is {}, expected {}",
                                             ShapeText(got.shape), ShapeText(want.shape)));
  }
  return std::nullopt;
}

/// A tensor to compare, and the memory of its elements if they are not the candidate's.
struct Compared {
  Compared(const task::Tensor& got, int64_t first, const task::Output& want) : tensor(got) {
    if (!want.ranking) return;
    bytes = WithIndicesOfTruth(got, first, want);
    tensor.storage = bytes;
    tensor.offset = 0;
  }
  Compared(const Compared&) = delete;
  Compared& operator=(const Compared&) = delete;
  std::vector<std::byte> bytes;
  task::Tensor tensor;
};

/// Sets the limit of the largest error from the dtype and the error scale.
void SetMaxLimit(const task::Output& want, records::Comparison& result) {
  if (!IsFloating(want.dtype)) return;
  result.max_limit = kMaxFactor * want.error_scale + AbsoluteFloor(want.dtype);
}

/// Sets the limit of the RMS error. The part of the error scale that is the rounding of a 16-bit
/// result has a smaller factor: neither the order of a sum nor an intrinsic changes that rounding.
void SetRmsLimit(const Totals& totals, const task::Output& want, records::Comparison& result) {
  if (!IsFloating(want.dtype)) return;
  double scale = want.error_scale, rounding = 0;
  if ((want.dtype == DType::kF16 || want.dtype == DType::kBF16) && totals.pairs > 0) {
    const double rms = std::sqrt(totals.truth_squares / static_cast<double>(totals.pairs));
    rounding = UnitRoundoff(want.dtype) / 2 * rms;
    scale = std::fmax(scale, rounding);
  }
  result.rms_limit =
      kRmsFactor * (scale - rounding) + kRoundingFactor * rounding + AbsoluteFloor(want.dtype);
}

/// The truth that is nearest to an answer, if the numbers in the task's code may be rounded or not.
class NearestTruth {
 public:
  /// All tensors are contiguous and of equal count.
  NearestTruth(const task::Tensor& got, const task::Tensor& truth,
               const std::optional<task::Tensor>& rounded)
      : tensor_(truth) {
    if (!rounded) return;
    const Reader value(got), exact(truth), other(*rounded);
    values_.resize(static_cast<size_t>(UsableCount(truth)));
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      values_[i] = NearestBetween(value(at), exact(at), other(at));
    }
    tensor_.storage = std::as_bytes(std::span(values_));
    tensor_.offset = 0;
  }
  NearestTruth(const NearestTruth&) = delete;
  NearestTruth& operator=(const NearestTruth&) = delete;

  const task::Tensor& tensor() const { return tensor_; }

 private:
  std::vector<double> values_;
  task::Tensor tensor_;
};

/// The rule for an answer of the candidate; those of negative controls need no RoundedResults.
Rule CountingRule(const task::Output& want, const records::Comparison& result) {
  Rule rule = RuleFor(want.dtype, result.max_limit);
  rule.counts_rounding = true;
  return rule;
}

/// Fills in the error figures and returns true if the output is correct. A NaN anywhere rejects.
bool Conclude(const Totals& totals, const task::Output& want, records::Comparison& result) {
  SetRmsLimit(totals, want, result);
  result.max_error = totals.max_error;
  if (totals.pairs > 0) {
    result.rms_error = std::sqrt(totals.sum_squares / static_cast<double>(totals.pairs));
  }
  result.wrong_count = totals.wrong;
  result.rounding = totals.rounding.Results(want.error_scale);
  const bool rms_ok = !IsFloating(want.dtype) || result.rms_error <= result.rms_limit;
  result.ok = totals.wrong == 0 && rms_ok;
  if (!result.ok) result.code = totals.non_finite_wrong > 0 ? "not_finite" : "wrong_result";
  return result.ok;
}

}  // namespace

records::Comparison CompareOn(size_t threads, const task::Tensor& got, const task::Output& want) {
  if (auto refusal = RefuseByType(got, want)) return *refusal;
  records::Comparison result;
  result.count = UsableCount(got);
  if (result.count < 0) return Refuse("broken_case", "the output's storage and shape differ");
  SetMaxLimit(want, result);
  const Compared compared(got, 0, want);
  const NearestTruth truth(compared.tensor, want.truth, want.rounded_truth);
  const Scanner scan(compared.tensor, truth.tensor(), CountingRule(want, result), want.neighbours);
  Totals totals = scan.Run(threads);
  if (Conclude(totals, want, result)) return result;
  if (totals.wrong > 0) {
    DescribeErrors(result, scan, totals, false, want);
    return result;
  }
  // No single element is far out, but together they exceed the RMS limit: count each element beyond
  // that limit as wrong.
  const Scanner strict(got, truth.tensor(), RuleFor(want.dtype, result.rms_limit));
  totals = strict.Run(threads);
  result.wrong_count = totals.wrong;
  DescribeErrors(result, strict, totals, true, want);
  return result;
}

records::Comparison CompareQuietly(const task::Tensor& got, const task::Output& want) {
  if (auto refusal = RefuseByType(got, want)) return *refusal;
  records::Comparison result;
  result.count = UsableCount(got);
  if (result.count < 0) return Refuse("broken_case", "the output's storage and shape differ");
  SetMaxLimit(want, result);
  const Compared compared(got, 0, want);
  const NearestTruth truth(compared.tensor, want.truth, want.rounded_truth);
  const Scanner scan(compared.tensor, truth.tensor(), RuleFor(want.dtype, result.max_limit),
                     want.neighbours);
  Conclude(scan.Run(ThreadsFor(result.count)), want, result);
  return result;
}

records::Comparison CompareWritten(const engine::OutputTensor& got, const task::Output& want) {
  const auto size = static_cast<size_t>(SizeOf(got.dtype));
  task::Tensor whole;  // only its type is used
  whole.dtype = got.dtype;
  whole.shape = got.shape;
  const int64_t all = UsableCount(want.truth);
  if (auto refusal = RefuseByType(whole, want)) return *refusal;
  records::Comparison result;
  SetMaxLimit(want, result);
  Totals totals;
  for (const engine::ElementRange& range : got.written) {
    const int64_t count = range.end - range.begin;
    const auto from = static_cast<size_t>(result.count) * size;
    if (range.begin < 0 || count <= 0 || range.end > all ||
        got.bytes.size() < from + static_cast<size_t>(count) * size) {
      return Refuse("broken_case", "a sampled range is outside the output");
    }
    task::Tensor part;
    part.dtype = got.dtype;
    part.shape = {count};
    part.strides = {1};
    part.storage = std::span(got.bytes).subspan(from);
    const auto of_range = [&](task::Tensor tensor) {
      tensor.shape = part.shape;
      tensor.strides = part.strides;
      tensor.offset += range.begin;
      return tensor;
    };
    std::vector<task::Tensor> neighbours;
    neighbours.reserve(want.neighbours.size());
    for (const task::Tensor& tensor : want.neighbours) neighbours.push_back(of_range(tensor));
    const Compared compared(part, range.begin, want);
    std::optional<task::Tensor> rounded;
    if (want.rounded_truth) rounded = of_range(*want.rounded_truth);
    const NearestTruth truth(compared.tensor, of_range(want.truth), rounded);
    const Scanner scan(compared.tensor, truth.tensor(), CountingRule(want, result), neighbours);
    Totals here = scan.Run(1);
    for (int64_t element : here.first_wrong) {
      if (result.first_wrong.size() >= kMostListed) break;
      result.first_wrong.push_back({task::IndexOf(range.begin + element, want.shape),
                                    scan.got(element), scan.wanted(element)});
    }
    totals = Combine(std::move(totals), here);
    result.count += count;
  }
  if (result.count == 0 && all > 0) {
    return Refuse("wrong_result", "no sampled block wrote to the output");
  }
  if (Conclude(totals, want, result)) return result;
  result.message = fmt::format(
      "{} (of the elements that sampled blocks wrote)",
      ErrorText(result, RuleFor(want.dtype, result.max_limit), totals, totals.wrong == 0));
  return result;
}

records::Comparison Compare(const task::Tensor& got, const task::Output& want) {
  return CompareOn(ThreadsFor(UsableCount(got)), got, want);
}

}  // namespace cupel::judge
