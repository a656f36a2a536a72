// SPDX-License-Identifier: Apache-2.0
#include "assay/secret.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace cupel::assay {
namespace {

using engine::Change;

template <typename T>
task::Value ValueOf(const std::vector<T>& data, std::vector<int64_t> shape,
                    DType dtype = DType::kF32) {
  task::Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.strides = task::ContiguousStrides(tensor.shape);
  tensor.storage = std::as_bytes(std::span(data));
  return task::Value{tensor};
}

std::vector<float> Counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

float FloatOf(const Change& change) {
  float value = 0;
  EXPECT_EQ(change.bytes.size(), sizeof value);
  std::memcpy(&value, change.bytes.data(), sizeof value);
  return value;
}

class Secret : public ::testing::Test {
 protected:
  task::Case case_;
  Random random_{7};
};

TEST_F(Secret, ChangesElementToOtherValueOfSameArgument) {
  const auto few = Counting(12), many = Counting(4096);
  case_.args = {ValueOf(few, {3, 4}), ValueOf(many, {4096})};
  std::set<uint64_t> places;
  for (int draw = 0; draw < 50; ++draw) {
    int of_few = 0, of_many = 0;
    for (const Change& change : DrawSecrets(case_, random_)) {
      const auto& values = change.argument == 0 ? few : many;
      ASSERT_LT(change.argument, 2);
      ASSERT_EQ(change.offset % sizeof(float), 0u);
      const size_t element = change.offset / sizeof(float);
      ASSERT_LT(element, values.size());
      EXPECT_NE(FloatOf(change), values[element]);
      EXPECT_EQ(std::count(values.begin(), values.end(), FloatOf(change)), 1);
      ++(change.argument == 0 ? of_few : of_many);
      if (change.argument == 1) places.insert(element);
    }
    EXPECT_EQ(of_few, 1);
    EXPECT_GT(of_many, 1);
  }
  EXPECT_GT(places.size(), 100u) << "places must be drawn again each time";
}

TEST_F(Secret, StaysInsideStridedViews) {
  // Rows 1 and 2 of four, columns 1, 3 and 5 of eight: transposed, after an offset.
  const auto values = Counting(32);
  task::Value view = ValueOf(values, {3, 2});
  auto& tensor = std::get<task::Tensor>(view.data);
  tensor.strides = {2, 8};
  tensor.offset = 9;
  case_.args = {view};
  const std::set<uint64_t> inside{9, 11, 13, 17, 19, 21};
  std::set<uint64_t> changed;
  for (int draw = 0; draw < 200; ++draw) {
    for (const Change& change : DrawSecrets(case_, random_)) {
      changed.insert(change.offset / sizeof(float));
      EXPECT_TRUE(inside.count(static_cast<uint64_t>(FloatOf(change)))) << FloatOf(change);
    }
    const auto nan = DrawNan(case_, random_);
    ASSERT_TRUE(nan.has_value());
    EXPECT_TRUE(inside.count(nan->offset / sizeof(float)));
  }
  EXPECT_EQ(changed, inside) << "some elements are never changed";
}

TEST_F(Secret, DoesNotChangeIntegersScalarsAndConstants) {
  const std::vector<int64_t> indices{1, 2, 3};
  const std::vector<float> one{1}, ones(500, 1), none;
  case_.args = {ValueOf(indices, {3}, DType::kI64), ValueOf(one, {1}), ValueOf(one, {}),
                ValueOf(ones, {500}), ValueOf(none, {0, 4})};
  for (int draw = 0; draw < 20; ++draw) EXPECT_TRUE(DrawSecrets(case_, random_).empty());
}

TEST_F(Secret, NumbersArgumentsByPositionAmongTensors) {
  const auto values = Counting(8);
  const std::vector<int64_t> indices{1, 2, 3};
  case_.args = {task::Value{2.0}, ValueOf(indices, {3}, DType::kI64), task::Value{task::None{}},
                task::Value{std::vector<task::Value>{ValueOf(values, {8})}}};
  const auto changes = DrawSecrets(case_, random_);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].argument, 1);
}

TEST_F(Secret, LimitsChangesForManyLargeArguments) {
  const auto values = Counting(1000);
  case_.args.assign(100, ValueOf(values, {1000}));
  EXPECT_LE(DrawSecrets(case_, random_).size(), 64u);  // the GPU worker's limit
}

TEST_F(Secret, NanReachesEveryTensorArgument) {
  const auto a = Counting(8), b = Counting(8);
  const std::vector<float> one{1};
  const std::vector<uint16_t> halves(8, 0x3c00);
  case_.args = {ValueOf(a, {8}), ValueOf(one, {1}), ValueOf(b, {2, 4}),
                ValueOf(halves, {8}, DType::kF16)};
  std::set<int> reached;
  for (int draw = 0; draw < 100; ++draw) {
    const auto change = DrawNan(case_, random_);
    ASSERT_TRUE(change.has_value());
    reached.insert(change->argument);
    ChangedArguments arguments(case_);
    const auto& storages = arguments.Change({*change});
    task::Tensor tensor = *task::TensorLeaves(case_.args)[static_cast<size_t>(change->argument)];
    tensor.storage = storages[static_cast<size_t>(change->argument)];
    int nans = 0;
    for (int64_t i = 0; i < 8; ++i) nans += std::isnan(task::ElementAsDouble(tensor, i)) ? 1 : 0;
    EXPECT_EQ(nans, 1);
  }
  EXPECT_EQ(reached, (std::set<int>{0, 2, 3}));
}

TEST_F(Secret, DrawsNoNanInArgumentsThatTheFunctionChanges) {
  const auto a = Counting(8), b = Counting(1000);
  case_.args = {ValueOf(a, {8}), ValueOf(b, {1000})};
  task::Output changed;
  changed.argument = 1;
  case_.outputs = {changed};
  for (int draw = 0; draw < 20; ++draw) EXPECT_EQ(DrawNan(case_, random_).value().argument, 0);
}

TEST_F(Secret, DrawsNoNanIfThereAreIndices) {
  const auto values = Counting(8);
  const std::vector<int64_t> indices{1, 2, 3};
  case_.args = {ValueOf(values, {8}), ValueOf(indices, {3}, DType::kI64)};
  EXPECT_FALSE(DrawNan(case_, random_).has_value());
  case_.args.clear();
  EXPECT_FALSE(DrawNan(case_, random_).has_value());
}

TEST_F(Secret, AppliesChangesToCopyAndLastChangeWins) {
  const auto a = Counting(4), b = Counting(4);
  case_.args = {ValueOf(a, {4}), ValueOf(b, {4})};
  const auto bytes = [](float value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  ChangedArguments arguments(case_);
  const auto first_after = [&](const std::vector<Change>& changes) {
    const auto& storages = arguments.Change(changes);
    EXPECT_EQ(storages.size(), 2u);
    EXPECT_EQ(storages[1].data(), std::as_bytes(std::span(b)).data()) << "unnecessary copy";
    std::vector<float> now(4);
    std::memcpy(now.data(), storages[0].data(), storages[0].size());
    return now;
  };
  EXPECT_EQ(first_after({{0, 4, bytes(50)}, {0, 12, bytes(60)}, {0, 4, bytes(70)}}),
            (std::vector<float>{0, 70, 2, 60}));
  EXPECT_EQ(first_after({{0, 0, bytes(80)}}), (std::vector<float>{80, 1, 2, 3}))
      << "must be undone";
  EXPECT_EQ(first_after({}), a);
  EXPECT_EQ(a, Counting(4));
}

}  // namespace
}  // namespace cupel::assay
