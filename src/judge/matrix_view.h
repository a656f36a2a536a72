// An output viewed as a matrix, from which negative controls make wrong answers: all axes but the
// last are rows. For a large output, the view contains only the last rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "task/case.h"

namespace cupel::judge {

class MatrixView {
 public:
  /// Returns nothing if the output is ignored or empty, or if its tensors do not match the case
  /// (the comparison reports that). `output` must outlive the view's tensors.
  static std::optional<MatrixView> Of(const task::Output& output);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t count() const { return rows_ * columns_; }
  int element_size() const { return SizeOf(want_.dtype); }
  /// The share of the output's elements that the view contains.
  double Share() const { return share_; }
  /// RMS of the truth, over finite numbers.
  double Scale() const;

  /// The expected output, restricted to the view.
  const task::Output& want() const { return want_; }
  /// A tensor of the view's shape that borrows `answer`.
  task::Tensor TensorOf(const std::vector<std::byte>& answer) const;

  // Answers, in the contract's dtype.
  std::vector<std::byte> Reference() const;
  /// The mean of the truth everywhere.
  std::vector<std::byte> Mean() const;
  /// The reference rounded to `bits` explicit bits of the significand.
  std::vector<std::byte> Rounded(int bits) const;
  /// The view's elements of `tensor`, which must have the output's shape and dtype.
  std::vector<std::byte> SameElementsOf(const task::Tensor& tensor) const;

  /// True if `answer` is as close to the truth as PyTorch's own result or as the dtype allows: then
  /// it is not a wrong answer.
  bool IsRight(const std::vector<std::byte>& answer) const;

 private:
  task::Output want_;
  int64_t rows_ = 0, columns_ = 0, first_ = 0;  // first element in the output
  double share_ = 1;
};

}  // namespace cupel::judge
