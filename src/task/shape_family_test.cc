// SPDX-License-Identifier: Apache-2.0
#include "task/shape_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace cupel::task {
namespace {

using ::testing::ElementsAre;

class ShapeFamilyTest : public ::testing::Test {
 protected:
  /// A square matrix, a transposed view behind an offset, an integer and a tuple.
  CallShape Call(int64_t n) const {
    Tensor square, view, count;
    square.shape = {n, n};
    square.strides = {n, 1};
    square.storage = zeros_.first(static_cast<size_t>(4 * n * n));
    view.shape = {3, n};
    view.strides = {1, 3};
    view.offset = n;
    view.storage = zeros_.first(static_cast<size_t>(16 * n));
    count.storage = zeros_.first(4);
    return {{{square}, {std::vector<Value>{{view}, {2 * n + 1}}}, {0.5}, {count}}, zeros_};
  }
  std::optional<ShapeFamily> Fit(const std::vector<int64_t>& sizes,
                                 const std::function<CallShape(int64_t)>& call) const {
    std::vector<CallShape> calls;
    std::vector<ShapeFamily::Point> points;
    for (const int64_t size : sizes) calls.push_back(call(size));
    for (size_t i = 0; i < sizes.size(); ++i) points.emplace_back(sizes[i], &calls[i]);
    return ShapeFamily::Fit(points);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  std::span<const std::byte> zeros_ = memory_;
};

TEST_F(ShapeFamilyTest, TellsOtherSizes) {
  const auto family = Fit({1, 2, 3, 64, 200}, [&](int64_t n) { return Call(n); });
  ASSERT_TRUE(family);
  const auto call = family->At(101);
  ASSERT_TRUE(call);
  const Tensor& square = *call->args[0].AsTensor();
  EXPECT_THAT(square.shape, ElementsAre(101, 101));
  EXPECT_THAT(square.strides, ElementsAre(101, 1));
  EXPECT_EQ(square.storage.size(), 4u * 101 * 101);
  const auto& tuple = std::get<std::vector<Value>>(call->args[1].data);
  EXPECT_EQ(tuple[0].AsTensor()->offset, 101);
  EXPECT_EQ(std::get<int64_t>(tuple[1].data), 203);
  EXPECT_EQ(std::get<double>(call->args[2].data), 0.5);
  EXPECT_TRUE(call->args[3].AsTensor()->shape.empty());
  EXPECT_FALSE(family->At(1 << 20));  // a storage of more bytes than there are zeros
}

TEST_F(ShapeFamilyTest, RefusesWhatIsNoPolynomial) {
  EXPECT_FALSE(Fit({1, 2, 3}, [&](int64_t n) { return Call(n); }));  // nothing to check it with
  const std::function<void(CallShape&, int64_t)> changes[] = {
      [](CallShape& call, int64_t n) { call.args[2].data = 1.0 / static_cast<double>(n); },
      [](CallShape& call, int64_t n) {
        std::get<Tensor>(call.args[0].data).shape[0] = (n + 7) / 8 * 8;
      },
      [](CallShape& call, int64_t n) {
        std::get<Tensor>(call.args[0].data).dtype = n > 10 ? DType::kF16 : DType::kF32;
      },
      [](CallShape& call, int64_t n) {
        if (n > 10) call.args.pop_back();
      }};
  for (const auto& change : changes) {
    EXPECT_FALSE(Fit({1, 2, 3, 64, 200}, [&](int64_t n) {
      CallShape call = Call(n);
      change(call, n);
      return call;
    }));
  }
}

}  // namespace
}  // namespace cupel::task
