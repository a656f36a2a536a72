// An output as a matrix, from which negative controls make wrong answers: all axes but the last are
// rows. Of a large output the last rows stand for all.
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
  /// Nothing for an output that is ignored, empty, or whose tensors are not what the case promises
  /// (the comparison says so). `output` must outlive the view's tensors.
  static std::optional<MatrixView> Of(const task::Output& output);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t count() const { return rows_ * columns_; }
  int element_size() const { return SizeOf(want_.dtype); }
  /// Of the output's elements, those that the view holds.
  double Share() const { return share_; }
  /// RMS of the truth, over finite numbers.
  double Scale() const;

  /// What is wanted of the view alone.
  const task::Output& want() const { return want_; }
  /// A tensor of the view's shape over `answer`, borrowed.
  task::Tensor TensorOf(const std::vector<std::byte>& answer) const;

  // Answers, in the contract's dtype.
  std::vector<std::byte> Reference() const;
  /// The mean of the truth everywhere.
  std::vector<std::byte> Mean() const;
  /// The reference with that many explicit bits of the significand.
  std::vector<std::byte> Rounded(int bits) const;
  /// The elements of `tensor`, of the output's shape and dtype, that lie where the view does.
  std::vector<std::byte> SameElementsOf(const task::Tensor& tensor) const;

  /// True when `answer` is as near to the truth as PyTorch's own or its dtype lets it be: then it
  /// is no wrong answer.
  bool IsRight(const std::vector<std::byte>& answer) const;

 private:
  task::Output want_;
  int64_t rows_ = 0, columns_ = 0, first_ = 0;  // first element in the output
  double share_ = 1;
};

}  // namespace cupel::judge
