// SPDX-License-Identifier: Apache-2.0
#include "judge/matrix_view.h"

#include <gtest/gtest.h>

#include <numeric>

#include "judge/testing.h"

namespace cupel::judge {
namespace {

TEST(MatrixView, RestrictsAllTensorsOfAnOutputToTheSameRows) {
  constexpr int64_t kRows = 40'000, kColumns = 32;  // more elements than a view has
  std::vector<float> reference(kRows * kColumns);
  std::iota(reference.begin(), reference.end(), 0.0F);
  const std::vector<double> truth(reference.begin(), reference.end());
  std::vector<double> rounded = truth;
  for (double& value : rounded) value += 0.5;
  task::Output output;
  output.shape = {kRows, kColumns};
  output.reference = TensorOf(reference, output.shape, DType::kF32);
  output.truth = TensorOf(truth, output.shape, DType::kF64);
  output.rounded_truth = TensorOf(rounded, output.shape, DType::kF64);
  const auto view = MatrixView::Of(output);
  ASSERT_TRUE(view);
  ASSERT_LT(view->rows(), kRows);
  const task::Output& want = view->want();
  ASSERT_TRUE(want.rounded_truth);
  for (const int64_t i : {int64_t{0}, view->count() - 1}) {
    const double value = task::ElementAsDouble(want.truth, i);
    EXPECT_EQ(task::ElementAsDouble(want.reference, i), value);
    EXPECT_EQ(task::ElementAsDouble(*want.rounded_truth, i), value + 0.5);
  }
  EXPECT_EQ(task::ElementAsDouble(want.truth, view->count() - 1), truth.back());
}

TEST(MatrixView, NeedsTensorsOfTheOutputsShape) {
  const std::vector<float> reference(6, 1);
  const std::vector<double> truth(6, 1);
  task::Output output;
  output.shape = {2, 3};
  output.reference = TensorOf(reference, output.shape, DType::kF32);
  output.truth = TensorOf(truth, output.shape, DType::kF64);
  EXPECT_TRUE(MatrixView::Of(output));
  output.rounded_truth = TensorOf(truth, {6}, DType::kF64);
  EXPECT_FALSE(MatrixView::Of(output));
}

}  // namespace
}  // namespace cupel::judge
