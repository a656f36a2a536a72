// SPDX-License-Identifier: Apache-2.0
#include "judge/matrix_view.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "judge/compare.h"
#include "judge/scan.h"

namespace cupel::judge {
namespace {

/// Enough to detect wrong answers, at a fraction of a second for all controls.
constexpr int64_t kMostElements = 1 << 20;

using Bytes = std::vector<std::byte>;

template <typename T>
void Put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// `value` in the dtype, rounded to nearest; integers stay in their range.
void Store(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::kF64:
      return Put(to, value);
    case DType::kF32:
      return Put(to, static_cast<float>(value));
    case DType::kF16:
      return Put(to, FloatToHalf(static_cast<float>(value)));
    case DType::kBF16:
      return Put(to, FloatToBFloat16(static_cast<float>(value)));
    case DType::kF8E5M2:
    case DType::kF8E4M3:
      return Put(to, FloatToFloat8(dtype, static_cast<float>(value)));
    case DType::kBool:
      return Put(to, static_cast<uint8_t>(value >= 0.5));
    case DType::kU8:
      return Put(to, static_cast<uint8_t>(std::lrint(value)));
    case DType::kI8:
      return Put(to, static_cast<int8_t>(std::lrint(value)));
    case DType::kI16:
      return Put(to, static_cast<int16_t>(std::lrint(value)));
    case DType::kI32:
      return Put(to, static_cast<int32_t>(std::lrint(value)));
    case DType::kI64:
      return Put(to, static_cast<int64_t>(std::lrint(value)));
  }
}

double RoundedTo(int bits, double value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);  // in [0.5, 1)
  return std::ldexp(std::nearbyint(std::ldexp(significand, bits + 1)), exponent - bits - 1);
}

bool Usable(const task::Tensor& tensor, const task::Output& output, DType dtype) {
  return tensor.dtype == dtype && tensor.shape == output.shape && tensor.IsContiguous() &&
         task::FitsStorage(tensor);
}

void Restrict(task::Tensor& tensor, int64_t first, const std::vector<int64_t>& shape) {
  tensor.offset += first;
  tensor.shape = shape;
  tensor.strides = task::ContiguousStrides(shape);
}

/// The mean of `of` over the finite numbers of a tensor; 0 if there are none.
template <typename F>
double MeanOf(const task::Tensor& tensor, F of) {
  const Reader numbers(tensor);
  const int64_t count = tensor.numel();
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = numbers(i);
    if (!std::isfinite(value)) continue;
    sum += of(value);
    ++finite;
  }
  return finite == 0 ? 0 : sum / static_cast<double>(finite);
}

}  // namespace

std::optional<MatrixView> MatrixView::Of(const task::Output& output) {
  const DType truth = IsFloating(output.dtype) ? DType::kF64 : output.dtype;
  if (output.is_none || !Usable(output.reference, output, output.dtype) ||
      !Usable(output.truth, output, truth)) {
    return std::nullopt;
  }
  for (const task::Tensor& neighbour : output.neighbours) {
    if (!Usable(neighbour, output, output.dtype)) return std::nullopt;
  }
  if (output.rounded_truth && !Usable(*output.rounded_truth, output, DType::kF64)) {
    return std::nullopt;
  }
  const int64_t all = output.truth.numel();
  if (all == 0) return std::nullopt;
  MatrixView view;
  // Ignore axes of length 1. Treat a single row as a column, so that it has tiles.
  view.columns_ = 1;
  for (size_t axis = output.shape.size(); axis-- > 0 && view.columns_ == 1;) {
    view.columns_ = output.shape[axis];
  }
  view.rows_ = all / view.columns_;
  if (view.rows_ == 1) std::swap(view.rows_, view.columns_);
  const int64_t most = std::max<int64_t>(1, kMostElements / view.columns_);
  view.first_ = std::max<int64_t>(0, view.rows_ - most) * view.columns_;
  view.rows_ = std::min(view.rows_, most);
  view.share_ = static_cast<double>(view.count()) / static_cast<double>(all);
  view.want_ = output;
  view.want_.ranking.reset();  // its labels are of the whole output
  view.want_.shape = {view.rows_, view.columns_};
  Restrict(view.want_.reference, view.first_, view.want_.shape);
  Restrict(view.want_.truth, view.first_, view.want_.shape);
  if (view.want_.rounded_truth) {
    Restrict(*view.want_.rounded_truth, view.first_, view.want_.shape);
  }
  for (task::Tensor& neighbour : view.want_.neighbours) {
    Restrict(neighbour, view.first_, view.want_.shape);
  }
  return view;
}

double MatrixView::Scale() const {
  return std::sqrt(MeanOf(want_.truth, [](double value) { return value * value; }));
}

task::Tensor MatrixView::TensorOf(const Bytes& answer) const {
  task::Tensor tensor;
  tensor.dtype = want_.dtype;
  tensor.shape = want_.shape;
  tensor.strides = task::ContiguousStrides(want_.shape);
  tensor.storage = answer;
  return tensor;
}

Bytes MatrixView::Reference() const {
  const auto size = static_cast<size_t>(element_size());
  const auto part = want_.reference.storage.subspan(
      static_cast<size_t>(want_.reference.offset) * size, static_cast<size_t>(count()) * size);
  return {part.begin(), part.end()};
}

Bytes MatrixView::Mean() const {
  const double mean = MeanOf(want_.truth, [](double value) { return value; });
  const auto size = static_cast<size_t>(element_size());
  Bytes answer(static_cast<size_t>(count()) * size);
  for (size_t at = 0; at < answer.size(); at += size) Store(want_.dtype, mean, answer.data() + at);
  return answer;
}

Bytes MatrixView::Rounded(int bits) const {
  const Reader reference(want_.reference);
  const auto size = static_cast<size_t>(element_size());
  Bytes answer(static_cast<size_t>(count()) * size);
  for (int64_t i = 0; i < count(); ++i) {
    Store(want_.dtype, RoundedTo(bits, reference(i)),
          answer.data() + static_cast<size_t>(i) * size);
  }
  return answer;
}

Bytes MatrixView::SameElementsOf(const task::Tensor& tensor) const {
  const auto size = static_cast<size_t>(element_size());
  Bytes answer(static_cast<size_t>(count()) * size);
  std::vector<int64_t> index(tensor.shape.size());
  int64_t rest = first_;
  for (size_t axis = index.size(); axis-- > 0;) {
    index[axis] = rest % tensor.shape[axis];
    rest /= tensor.shape[axis];
  }
  for (size_t to = 0; to < answer.size(); to += size) {
    int64_t element = tensor.offset;
    for (size_t axis = 0; axis < index.size(); ++axis)
      element += index[axis] * tensor.strides[axis];
    std::memcpy(answer.data() + to, tensor.storage.data() + static_cast<size_t>(element) * size,
                size);
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < tensor.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return answer;
}

bool MatrixView::IsRight(const Bytes& answer) const {
  const task::Tensor tensor = TensorOf(answer);
  const Rule exact = RuleFor(want_.dtype, 0);
  const Scanner scan(tensor, want_.truth, exact, want_.neighbours);
  if (exact.exact) return scan.Run(1).wrong == 0;
  const Reader reference(want_.reference);
  const double relative = 4 * UnitRoundoff(JudgedAs(want_.dtype));
  const double floor = AbsoluteFloor(want_.dtype);
  for (int64_t i = 0; i < count(); ++i) {
    const double got = scan.got(i), wanted = scan.wanted(i);
    if (!std::isfinite(got) || !std::isfinite(wanted)) {
      if (!SameNonFinite(got, wanted)) return false;
      continue;
    }
    const double own = exact.ErrorOf(reference(i), wanted);
    if (exact.ErrorOf(got, wanted) > relative * std::fabs(wanted) + 2 * own + floor) return false;
  }
  return true;
}

}  // namespace cupel::judge
