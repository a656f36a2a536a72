// SPDX-License-Identifier: Apache-2.0
#include "task/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace cupel::task {
namespace {

TEST(Tensor, ReadsThroughStridesAndOffset) {
  const float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  Tensor t;
  t.shape = {3, 2};
  t.strides = {1, 3};  // a transposed view that starts at 1
  t.offset = 1;
  t.storage = std::as_bytes(std::span(data));
  EXPECT_TRUE(FitsStorage(t));
  EXPECT_FALSE(t.IsContiguous());
  EXPECT_EQ(ElementAsDouble(t, 0), 1);
  EXPECT_EQ(ElementAsDouble(t, 1), 4);
  EXPECT_EQ(ElementAsDouble(t, 5), 6);
  EXPECT_EQ(t.Describe(), "float32[3, 2]");
}

TEST(Tensor, FitsStorageIsExactAtTheEdge) {
  const float data[6] = {};
  Tensor t;
  t.storage = std::as_bytes(std::span(data));
  t.shape = {2, 3};
  t.strides = {3, 1};
  EXPECT_TRUE(FitsStorage(t));
  t.offset = 1;
  EXPECT_FALSE(FitsStorage(t));
  t.offset = -1;
  EXPECT_FALSE(FitsStorage(t));
  t.offset = 0;
  t.strides = {-3, 1};
  EXPECT_FALSE(FitsStorage(t));
  t.strides = {std::numeric_limits<int64_t>::max(), 1};
  EXPECT_FALSE(FitsStorage(t));
  t.strides = {3};
  EXPECT_FALSE(FitsStorage(t));
  t.shape = {1'000'000'000'000, 1'000'000'000'000};  // numel would overflow
  t.strides = {0, 0};
  EXPECT_FALSE(FitsStorage(t));
}

TEST(Tensor, EmptyViewFitsAnyStorage) {
  Tensor t;
  t.shape = {0, 5};
  t.strides = {5, 1};
  EXPECT_TRUE(FitsStorage(t));
  EXPECT_TRUE(t.IsContiguous());
}

TEST(Tensor, StridesOfUnitDimensionsDoNotMatter) {
  Tensor t;
  t.shape = {4, 1, 2};
  t.strides = {2, 99, 1};
  EXPECT_TRUE(t.IsContiguous());
  EXPECT_EQ(ContiguousStrides({4, 0, 2}), (std::vector<int64_t>{2, 2, 1}));
}

TEST(Tensor, ListsLeavesDepthFirst) {
  Tensor a, b;
  a.shape = {1};
  b.shape = {2};
  std::vector<Value> args(3);
  args[0].data = None{};
  args[1].data = std::vector<Value>{Value{a}, Value{int64_t{3}}};
  args[2].data = b;
  const auto leaves = TensorLeaves(args);
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0]->shape, a.shape);
  EXPECT_EQ(leaves[1]->shape, b.shape);
}

}  // namespace
}  // namespace cupel::task
