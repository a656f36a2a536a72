// SPDX-License-Identifier: Apache-2.0
#include "judge/controls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "judge/testing.h"

namespace cupel::judge {
namespace {

using testing::HasSubstr;
using Shape = std::vector<int64_t>;
using Function = std::function<double(int64_t)>;

std::function<double(int64_t)> Normals(uint64_t seed) {
  return [random = Random(seed)](int64_t) mutable { return Normal(random); };
}

/// A case of one float32 output; owns its elements.
struct Owned {
  Owned(const Shape& shape, const Function& value, double scale_of_error = 4 * 0x1p-24) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    for (int64_t i = 0; i < count; ++i) truth.push_back(value(i));
    reference.assign(truth.begin(), truth.end());
    task::Output output;
    output.shape = shape;
    output.truth = TensorOf(truth, shape, DType::kF64);
    output.reference = TensorOf(reference, shape, DType::kF32);
    output.error_scale = scale_of_error * Rms(truth);
    wanted.outputs.push_back(std::move(output));
  }

  std::vector<double> truth;
  std::vector<float> reference;
  task::Case wanted;
};

records::Control Find(const std::vector<records::Control>& controls, const std::string& name) {
  for (const records::Control& control : controls) {
    if (control.name == name) return control;
  }
  ADD_FAILURE() << "no control is called " << name;
  return {};
}

std::vector<records::Control> Try(const task::Case& first) {
  Controls controls;
  controls.TryFirst(first);
  return controls.Take();
}

TEST(Controls, RetriesPassingControlAtNextCase) {
  const auto lucky = [random = Random(1)](int64_t i) mutable {
    return i == 6 ? 1e-9 : Normal(random);
  };
  const Owned first({1, 7}, lucky), same({1, 7}, lucky), second({1, 7}, Normals(2));
  Controls controls;
  controls.TryFirst(first.wanted);
  EXPECT_TRUE(Find(controls.all(), "tail_rows_zero").Passes());
  controls.TryOther(same.wanted);
  EXPECT_TRUE(Find(controls.all(), "tail_rows_zero").Passes());
  controls.TryOther(second.wanted);
  EXPECT_GT(Find(controls.all(), "tail_rows_zero").distance, 1);
  EXPECT_EQ(PassingText(controls.all()), "");
}

TEST(Controls, AllFailIfTruthIsNotTrivial) {
  const Owned first({64, 100}, Normals(1)), second({64, 100}, Normals(2));
  Controls controls;
  controls.TryFirst(first.wanted);
  controls.TryOther(second.wanted);
  EXPECT_EQ(PassingText(controls.all()), "");
  for (const char* name :
       {"zeros", "mean", "tail_rows_zero", "tail_rows_stale", "tail_columns_zero",
        "tail_columns_stale", "inner_tile_zero", "inner_tile_stale", "rounded_to_tf32",
        "rounded_to_bfloat16", "other_seed"}) {
    const records::Control control = Find(controls.all(), name);
    EXPECT_EQ(control.skipped, "") << name;
    EXPECT_GT(control.distance, 1) << name;
    EXPECT_EQ(control.elements, 6400) << name;
  }
  // One row of 64 is a 64th of the squares: the distances use the judge's own limits.
  EXPECT_NEAR(Find(controls.all(), "zeros").distance, 1 / (16 * 4 * 0x1p-24), 2);
}

TEST(Controls, SkipsControlsOfTrivialTruth) {
  const auto zeros = Try(Owned({8, 8}, [](int64_t) { return 0; }).wanted);
  EXPECT_EQ(Find(zeros, "zeros").skipped, "the truth is all zeros");
  EXPECT_EQ(Find(zeros, "inner_tile_zero").skipped, "the truth is zero there");
  EXPECT_EQ(PassingText(zeros), "");
  const auto ones = Try(Owned({8, 8}, [](int64_t) { return 1; }).wanted);
  EXPECT_EQ(Find(ones, "zeros").skipped, "");
  EXPECT_EQ(Find(ones, "mean").skipped, "the truth is one number throughout");
  EXPECT_THAT(Find(ones, "rounded_to_bfloat16").skipped, HasSubstr("representable"));
  EXPECT_EQ(PassingText(ones), "");
}

TEST(Controls, SkipsTilesAndMeanOfScalar) {
  const auto scalar = Try(Owned({}, [](int64_t) { return 0.7; }).wanted);
  EXPECT_GT(Find(scalar, "zeros").distance, 1);
  EXPECT_NE(Find(scalar, "mean").skipped, "");
  EXPECT_EQ(Find(scalar, "tail_rows").skipped, "the output is too small");
  EXPECT_GT(Find(scalar, "rounded_to_tf32").distance, 1);
  EXPECT_EQ(PassingText(scalar), "");
}

TEST(Controls, ListsPassingControls) {
  // The error scale is as large as the output itself.
  const auto lost = Try(Owned({32, 32}, Normals(3), 0.5).wanted);
  EXPECT_TRUE(Find(lost, "zeros").Passes());
  EXPECT_THAT(PassingText(lost), HasSubstr("zeros passes at output 0 (0.12 of the limit)"));
  // A nearly constant truth with a large error scale.
  const auto flat =
      Try(Owned(
              {32, 32}, [](int64_t i) { return 1 + 1e-3 * static_cast<double>(i % 7); }, 1e-3)
              .wanted);
  EXPECT_TRUE(Find(flat, "mean").Passes());
  EXPECT_FALSE(Find(flat, "zeros").Passes());
}

TEST(Controls, SkipsRoundingIfTaskErrorIsAsLarge) {
  const auto controls = Try(Owned({64, 64}, Normals(4), 0x1p-12).wanted);
  const records::Control control = Find(controls, "rounded_to_tf32");
  EXPECT_THAT(control.skipped, HasSubstr("the task's own error"));
  EXPECT_LT(control.distance, 1);
  EXPECT_EQ(PassingText(controls), "");
}

TEST(Controls, TriesInputOfSameShapeAndDtype) {
  Owned own({4, 4}, Normals(5));
  std::vector<float> transposed(16), narrow(4);
  for (size_t i = 0; i < 16; ++i) transposed[i % 4 * 4 + i / 4] = own.reference[i];
  task::Tensor same = TensorOf(transposed, {4, 4}, DType::kF32);
  same.strides = {1, 4};
  own.wanted.args.push_back({TensorOf(narrow, {4}, DType::kF32)});
  own.wanted.args.push_back({same});
  EXPECT_EQ(Find(Try(own.wanted), "input_1").skipped, "the truth is this input");
  transposed[3] += 1;
  EXPECT_GT(Find(Try(own.wanted), "input_1").distance, 1);
}

TEST(Controls, ComparesIntegersExactly) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 64; ++i) values.push_back(i * i % 17);
  task::Output output;
  output.dtype = DType::kI64;
  output.shape = {8, 8};
  output.reference = output.truth = TensorOf(values, {8, 8}, DType::kI64);
  task::Case wanted;
  wanted.outputs.push_back(output);
  const auto controls = Try(wanted);
  EXPECT_GT(Find(controls, "zeros").distance, 1);
  EXPECT_GT(Find(controls, "mean").distance, 1);
  EXPECT_GT(Find(controls, "tail_columns_stale").distance, 1);
  EXPECT_EQ(Find(controls, "rounded").skipped, "int64 is not rounded");
  EXPECT_EQ(PassingText(controls), "");
}

TEST(Controls, SkipsOtherSeedIfTruthIsEqual) {
  const Owned same({4, 4}, Normals(6));
  Controls controls;
  controls.TryFirst(same.wanted);
  controls.TryOther(same.wanted);
  EXPECT_EQ(Find(controls.all(), "other_seed").skipped, "two seeds have the same truth");
}

TEST(Controls, RetriesOtherSeedAtFurtherCases) {
  const Owned first({}, [](int64_t) { return 2.3; });
  const Owned close({}, [](int64_t) { return 2.3 * (1 + 0x1p-20); });
  const Owned far({}, [](int64_t) { return 2.4; });
  Controls controls;
  controls.TryFirst(first.wanted);
  controls.TryOther(close.wanted);
  EXPECT_TRUE(Find(controls.all(), "other_seed").Passes());
  controls.TryOther(far.wanted);
  controls.TryOther(close.wanted);
  EXPECT_FALSE(Find(controls.all(), "other_seed").Passes());
  EXPECT_EQ(PassingText(controls.all()), "");
}

TEST(Controls, UsesLastRowsOfLargeOutput) {
  constexpr int64_t kRows = 3 << 12, kColumns = 1 << 9;  // six times the bound
  const auto value = [](int64_t i) {
    return i / kColumns < kRows - 1 ? 1e-3 : 1.0 + static_cast<double>(i % kColumns);
  };
  const auto controls = Try(Owned({kRows, kColumns}, value).wanted);
  const records::Control zeros = Find(controls, "tail_rows_zero");
  EXPECT_LT(zeros.elements, kRows * kColumns);
  EXPECT_GT(zeros.distance, 1);
}

TEST(Controls, SkipsIgnoredAndEmptyOutputs) {
  task::Case wanted;
  wanted.outputs.resize(2);
  wanted.outputs[0].is_none = true;
  wanted.outputs[1].shape = {0};
  const auto controls = Try(wanted);
  ASSERT_EQ(controls.size(), 2u);
  EXPECT_NE(controls[0].skipped, "");
  EXPECT_NE(controls[1].skipped, "");
}

}  // namespace
}  // namespace cupel::judge
