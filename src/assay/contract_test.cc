// SPDX-License-Identifier: Apache-2.0
#include "assay/contract.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cupel::assay {
namespace {

task::Value FloatArgument(const std::vector<float>& data, std::vector<int64_t> shape) {
  task::Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.strides = task::ContiguousStrides(tensor.shape);
  tensor.storage = std::as_bytes(std::span(data));
  return task::Value{tensor};
}

std::string Key(const std::vector<task::Value>& args) { return RecordingKey(args, false); }

TEST(RecordingKey, IgnoresTheContentsOfTensors) {
  const std::vector<float> a(6, 1.0f), b(6, 2.0f);
  EXPECT_EQ(Key({FloatArgument(a, {2, 3})}), Key({FloatArgument(b, {2, 3})}));
  EXPECT_NE(Key({FloatArgument(a, {2, 3})}), Key({FloatArgument(a, {3, 2})}));
}

TEST(RecordingKey, IncludesContentsOfOneElementTensors) {
  const std::vector<float> a(1, 1.0f), b(1, 2.0f);
  EXPECT_NE(Key({FloatArgument(a, {})}), Key({FloatArgument(b, {})}));
  EXPECT_EQ(Key({FloatArgument(a, {1})}), Key({FloatArgument(a, {1})}));
}

TEST(RecordingKey, IncludesIntegersThatHostCodeReads) {
  const std::vector<int32_t> a = {1, 2, 3}, b = {1, 2, 4}, many(2000);
  const auto of = [](const std::vector<int32_t>& data) {
    task::Tensor tensor;
    tensor.dtype = DType::kI32;
    tensor.shape = {static_cast<int64_t>(data.size())};
    tensor.strides = {1};
    tensor.storage = std::as_bytes(std::span(data));
    return task::Value{tensor};
  };
  EXPECT_EQ(Key({of(a)}), Key({of(b)}));
  EXPECT_NE(RecordingKey({of(a)}, true), RecordingKey({of(b)}, true));
  EXPECT_EQ(RecordingKey({of(many)}, true), Key({of(many)}));
}

TEST(RecordingKey, DistinguishesKindsOfScalars) {
  EXPECT_NE(Key({{true}}), Key({{int64_t{1}}}));
  EXPECT_NE(Key({{1.0}}), Key({{int64_t{1}}}));
  EXPECT_NE(Key({{task::None{}}}), Key({}));
  const task::Value one{int64_t{1}};
  EXPECT_NE(Key({task::Value{std::vector<task::Value>{one}}}), Key({one}));
}

TEST(ContractProblem, RejectsWorkspaceReturnedWithoutDeviceWork) {
  const std::vector<float> row(6, 1.0f);
  task::Case wanted;
  task::Output& output = wanted.outputs.emplace_back();
  output.shape = {6};
  output.reference = *FloatArgument(row, {6}).AsTensor();
  plan::Plan plan;
  plan::View view;
  view.shape = {6};
  view.strides = {1};
  view.address.buffer = 0;
  plan.outputs = {view};
  plan.buffers.resize(1);
  plan.buffers[0].kind = plan::BufferKind::kArgument;
  EXPECT_FALSE(ContractProblem(plan, wanted));  // its values decide
  plan.buffers[0].kind = plan::BufferKind::kWorkspace;
  const auto problem = ContractProblem(plan, wanted);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, "wrong_return");
}

TEST(DropDimensionOfNumbers, OnlyWhereTheTaskHasNone) {
  plan::Plan plan;
  task::Case wanted;
  wanted.outputs.resize(3);
  plan.outputs.resize(3);
  for (plan::View& view : plan.outputs) view.shape = view.strides = {1};
  wanted.outputs[0].shape = {1};
  plan.outputs[2].shape = {2};
  EXPECT_EQ(DropDimensionOfNumbers(plan, wanted), 1u);
  EXPECT_THAT(plan.outputs[0].shape, testing::ElementsAre(1));
  EXPECT_THAT(plan.outputs[1].shape, testing::IsEmpty());
  EXPECT_THAT(plan.outputs[2].shape, testing::ElementsAre(2));
  EXPECT_EQ(DropDimensionOfNumbers(plan, wanted), std::nullopt);
}

TEST(ReturnChangedArguments, MakesThemOutputsThatKernelsMayWrite) {
  const std::vector<float> data(12, 1.0f);
  task::Case wanted;
  wanted.args = {FloatArgument(data, {12}), FloatArgument(data, {3, 2})};
  std::get<task::Tensor>(wanted.args[1].data).offset = 4;
  task::Output& returned = wanted.outputs.emplace_back();
  returned.shape = {6};
  returned.reference = *FloatArgument(data, {6}).AsTensor();
  task::Output& changed = wanted.outputs.emplace_back();
  changed.argument = 1;
  changed.shape = {3, 2};
  EXPECT_EQ(wanted.ReturnedOutputs(), 1u);
  plan::Plan plan;
  plan.buffers = {{plan::BufferKind::kTemporary, 24, -1, "", 0},
                  {plan::BufferKind::kArgument, 48, 1, "", 0},
                  {plan::BufferKind::kArgument, 48, 0, "", 0}};
  plan.outputs = {{{0, 0}, DType::kF32, {6}, {1}}};
  plan.nodes.push_back({plan::Fill{}, {}});
  ReturnChangedArguments(plan, wanted);
  ASSERT_EQ(plan.outputs.size(), 2u);
  EXPECT_EQ(plan.outputs[1], (plan::View{{1, 16}, DType::kF32, {3, 2}, {2, 1}}));
  EXPECT_FALSE(plan::IsReadOnly(plan.buffers[1]));
  EXPECT_TRUE(plan::IsReadOnly(plan.buffers[2]));
  EXPECT_FALSE(ContractProblem(plan, wanted));
  plan.outputs.erase(plan.outputs.begin());  // as if the candidate returned nothing
  EXPECT_TRUE(ContractProblem(plan, wanted));
}

TEST(ContractProblem, RejectsNonContiguousViewOfInput) {
  const std::vector<float> matrix(6, 1.0f);
  task::Case wanted;
  wanted.outputs.resize(1);
  plan::Plan plan;
  plan.outputs.resize(1);
  plan.buffers.resize(1);
  const auto transposed = [&](plan::BufferKind kind, int64_t rows, int64_t columns) {
    plan.buffers[0].kind = kind;
    plan.nodes.resize(1);  // some work, elsewhere
    plan.outputs[0].address.buffer = 0;
    plan.outputs[0].shape = wanted.outputs[0].shape = {columns, rows};
    plan.outputs[0].strides = {1, columns};
    wanted.outputs[0].reference = *FloatArgument(matrix, {columns, rows}).AsTensor();
    return ContractProblem(plan, wanted);
  };
  const auto problem = transposed(plan::BufferKind::kArgument, 2, 3);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, "wrong_return");
  EXPECT_FALSE(transposed(plan::BufferKind::kTemporary, 2, 3));
  EXPECT_FALSE(transposed(plan::BufferKind::kArgument, 1, 6));
}

}  // namespace
}  // namespace cupel::assay
