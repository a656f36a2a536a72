// SPDX-License-Identifier: Apache-2.0
#include "assay/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

task::Tensor TensorOf(const std::vector<float>& data, std::vector<int64_t> shape) {
  task::Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.strides = task::ContiguousStrides(tensor.shape);
  tensor.storage = std::as_bytes(std::span(data));
  return tensor;
}

TEST(Roofline, BytesToReadCountsMemoryNotElements) {
  const std::vector<float> a(64), b(16), none;
  task::Case wanted;
  wanted.args = {task::Value{TensorOf(a, {8, 8})}, task::Value{TensorOf(b, {16})},
                 task::Value{TensorOf(none, {0})}, task::Value{3.0}};
  EXPECT_EQ(BytesToRead(wanted), 4 * (64 + 16));

  // One row of eight, expanded to a thousand rows, is read once. Other rows are never read.
  task::Tensor expanded = TensorOf(a, {1000, 8});
  expanded.strides = {0, 1};
  wanted.args = {task::Value{expanded}};
  EXPECT_EQ(BytesToRead(wanted), 4 * 8);

  // A tensor and its transpose share their storage.
  task::Tensor transposed = TensorOf(a, {8, 8});
  transposed.strides = {1, 8};
  wanted.args = {task::Value{TensorOf(a, {8, 8})}, task::Value{transposed}};
  EXPECT_EQ(BytesToRead(wanted), 4 * 64);

  // If a view covers only part of a storage, only that part must be read.
  wanted.args = {task::Value{TensorOf(a, {2, 8})}};
  EXPECT_EQ(BytesToRead(wanted), 4 * 16);

  // Overlapping windows count each byte once.
  task::Tensor windows = TensorOf(b, {14, 3});
  windows.strides = {1, 1};
  wanted.args = {task::Value{windows}};
  EXPECT_EQ(BytesToRead(wanted), 4 * 16);
}

// A cache of four rows, of which the call overwrites row 2 and one element of row 3, in a view
// whose rows lie eight elements apart.
TEST(Roofline, OfChangedArgumentsOnlyWhatGetsOtherBytesCounts) {
  const std::vector<float> values(6, 1), before(32, 2);
  std::vector<float> after(16, 2);
  for (int i = 8; i < 13; ++i) after[static_cast<size_t>(i)] = 7;
  task::Tensor cache = TensorOf(before, {4, 4});
  cache.strides = {8, 1};
  task::Case wanted;
  wanted.args = {task::Value{TensorOf(values, {6})}, task::Value{cache}};
  task::Output returned, changed;
  returned.shape = {3};
  changed.shape = {4, 4};
  changed.argument = 1;
  changed.reference = TensorOf(after, {4, 4});
  wanted.outputs = {returned, changed};
  EXPECT_EQ(BytesToRead(wanted), 4 * 6);
  EXPECT_EQ(BytesToWrite(wanted), 4 * (3 + 5));
}

TEST(Roofline, BytesToWriteOmitsIgnoredOutputs) {
  task::Case wanted;
  task::Output half, none, scalar;
  half.dtype = DType::kF16;
  half.shape = {10, 3};
  none.is_none = true;
  none.shape = {1000};
  wanted.outputs = {half, none, scalar};
  EXPECT_EQ(BytesToWrite(wanted), 2 * 30 + 4);
}

TEST(Roofline, TheContractDeterminesTheUnit) {
  using records::ArithmeticUnit;
  const std::vector<float> data(64);
  const auto unit = [&](std::vector<DType> inputs, DType output, bool tf32 = false) {
    task::Case wanted;
    for (const DType dtype : inputs) {
      task::Tensor tensor = TensorOf(data, {4});
      tensor.dtype = dtype;
      wanted.args.push_back(task::Value{tensor});
    }
    wanted.outputs.resize(1);
    wanted.outputs[0].dtype = output;
    return UnitOf(wanted, tf32);
  };
  EXPECT_EQ(unit({DType::kF32, DType::kF32}, DType::kF32), ArithmeticUnit::kFloat32);
  EXPECT_EQ(unit({DType::kF32, DType::kI64}, DType::kF32), ArithmeticUnit::kFloat32);
  EXPECT_EQ(unit({DType::kF32}, DType::kF32, true), ArithmeticUnit::kTf32);
  EXPECT_EQ(unit({DType::kBF16}, DType::kBF16, true), ArithmeticUnit::kSixteenBit);
  EXPECT_EQ(unit({DType::kF16}, DType::kF32), ArithmeticUnit::kSixteenBit);
  EXPECT_EQ(unit({DType::kF32}, DType::kF16), ArithmeticUnit::kSixteenBit);
  EXPECT_EQ(unit({DType::kI8, DType::kBF16}, DType::kBF16), ArithmeticUnit::kSixteenBit);
  EXPECT_EQ(unit({DType::kBF16}, DType::kF8E4M3), ArithmeticUnit::kSixteenBit);
  EXPECT_EQ(unit({DType::kF8E4M3, DType::kF32}, DType::kBF16), ArithmeticUnit::kEightBit);
  EXPECT_EQ(unit({DType::kI8}, DType::kI32), ArithmeticUnit::kEightBit);
  EXPECT_EQ(unit({DType::kF64}, DType::kF64), ArithmeticUnit::kFloat64);
  EXPECT_EQ(unit({DType::kF64, DType::kF32}, DType::kF64), ArithmeticUnit::kFloat64);
}

class Assessed : public ::testing::Test {
 protected:
  Assessed() {
    ceilings_.read_bytes = 4e12;
    ceilings_.copy_bytes = 4e12;
    ceilings_.fp32_flops = 60e12;
    setting_.read_bytes = 400e6;  // 100 us
    setting_.floor_us = 100;
    SetTime(200);
    timing_.verified = timing_.visible = 9;
  }
  void SetTime(double us) {
    timing_.median = {us, us, us, 0.95};
    timing_.warm_us = us;
  }
  std::vector<std::string> Oddities(double l2_bytes = 0) {
    timing_.oddities.clear();
    Assess(ceilings_, l2_bytes, setting_, &timing_);
    return timing_.oddities;
  }
  records::Ceilings ceilings_;
  records::SettingTimes setting_;
  records::Timing timing_;
};

TEST_F(Assessed, ReportsTimeBelowFloor) {
  SetTime(80);
  const std::string what = BelowFloor(ceilings_, 0, 50e6, setting_, timing_);
  EXPECT_THAT(what, HasSubstr("80 us for 400 MB"));
  EXPECT_THAT(what, HasSubstr("90.91 us"));
  // Within the headroom above the measured rate.
  SetTime(95);
  EXPECT_EQ(BelowFloor(ceilings_, 0, 50e6, setting_, timing_), "");
  // The memory's known bandwidth exceeds the rate measured on a disturbed GPU.
  SetTime(80);
  EXPECT_EQ(BelowFloor(ceilings_, 5e12, 50e6, setting_, timing_), "");
  // What is changed in place must be written: 200 us, less what stays in the cache.
  setting_.read_bytes = 0;
  setting_.written_bytes = 850e6;
  SetTime(170);
  EXPECT_THAT(BelowFloor(ceilings_, 0, 50e6, setting_, timing_),
              AllOf(HasSubstr("and 800 MB of results"), HasSubstr("181.8 us")));
  EXPECT_EQ(BelowFloor(ceilings_, 0, 200e6, setting_, timing_), "");
  setting_.written_bytes = 0;
  // Little to read: launching takes longer.
  setting_.read_bytes = 4e6;
  SetTime(0.1);
  EXPECT_EQ(BelowFloor(ceilings_, 0, 50e6, setting_, timing_), "");
}

TEST_F(Assessed, ComputesRatesAndRooflineShare) {
  EXPECT_THAT(Oddities(), IsEmpty());
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.5);
  EXPECT_DOUBLE_EQ(timing_.bytes_a_second, 2e12);
  EXPECT_EQ(timing_.flops, 0);

  // If arithmetic takes longer than reading, it sets the limit.
  setting_.flops = 9e9;  // 150 us
  EXPECT_THAT(Oddities(), IsEmpty());
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.75);
  EXPECT_DOUBLE_EQ(timing_.flops, 45e12);

  // Other units have other rates. Without a rate, only memory counts.
  setting_.unit = records::ArithmeticUnit::kSixteenBit;
  ceilings_.bf16_flops = 600e12;
  setting_.flops = 90e12 * 1e-3;  // 150 us
  EXPECT_THAT(Oddities(), IsEmpty());
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.75);
  setting_.unit = records::ArithmeticUnit::kEightBit;
  Oddities();
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.5);
  setting_.unit = records::ArithmeticUnit::kFloat64;
  Oddities();
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.5);

  // Writing 400 MB takes as long as reading them here. Writes that fit in the L2 take no time.
  setting_.flops = 0;
  setting_.written_bytes = 400e6;
  Oddities();
  EXPECT_DOUBLE_EQ(timing_.roofline, 1);
  EXPECT_DOUBLE_EQ(timing_.bytes_a_second, 4e12);
  Oddities(200e6);
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.75);
  Oddities(500e6);
  EXPECT_DOUBLE_EQ(timing_.roofline, 0.5);
}

TEST_F(Assessed, ReportsOddities) {
  timing_.spread = 20;
  EXPECT_THAT(Oddities(), Contains("times scatter by 10 %"));
  timing_.spread = 0;
  timing_.median = {200, 195, 205, 0.95};
  timing_.samples.cold.assign(40, 200);
  EXPECT_THAT(Oddities(), Contains("the median is uncertain by 2.5 % after 40 replays"));
  SetTime(200);
  timing_.warm_us = 220;
  EXPECT_THAT(Oddities(), Contains("slower with a warm L2: 220 us"));
  SetTime(90);
  setting_.unit = records::ArithmeticUnit::kTf32;
  EXPECT_THAT(Oddities(),
              Contains(HasSubstr("above the roofline of tf32 tensor cores and memory")));
}

TEST_F(Assessed, IgnoresDifferencesBelowClockResolution) {
  SetTime(0.2);
  setting_.floor_us = 0;
  timing_.spread = 0.032;
  timing_.median = {0.2, 0.19, 0.22, 0.95};
  EXPECT_THAT(Oddities(), IsEmpty());
}

TEST_F(Assessed, ReportsUnverifiedTimesExceptForBaselines) {
  timing_.visible = 0;
  EXPECT_THAT(Oddities(), Contains(HasSubstr("no changed input affected the outputs")));
  timing_.verified = 0;
  EXPECT_THAT(Oddities(), Contains(HasSubstr("no timed replay was verified")));
  timing_.is_baseline = true;
  EXPECT_THAT(Oddities(), IsEmpty());
}

}  // namespace
}  // namespace cupel::assay
