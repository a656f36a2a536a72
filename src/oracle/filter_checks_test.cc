// Tests the judgement of given measures. Needs no PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::oracle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A task without weights whose single output varies in all respects by about its scale.
TaskMeasures Healthy() {
  OutputMeasures output;
  output.name = "output";
  output.dtype = "float32";
  output.shape = {4, 8};
  output.lowest = -3;
  output.highest = 3;
  output.scale = 1;
  output.seeds_std = output.inputs_std = 1;
  output.axes = {{0, 4, 1}, {1, 8, 1}};
  TaskMeasures measures;
  measures.outputs = {output};
  ArgumentMeasures argument;
  argument.name = "x";
  argument.matters = true;
  measures.arguments = {argument};
  measures.operations = measures.operations_tried = 2;
  return measures;
}

QualityCheck Find(const TaskMeasures& measures, const std::string& name,
                  const std::optional<ModelOpinion>& opinion = {}) {
  for (QualityCheck& check : JudgeQuality(measures, opinion)) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

TEST(FilterChecks, HealthyTaskHasNoFlag) {
  const auto checks = JudgeQuality(Healthy(), {});
  EXPECT_FALSE(IsFlagged(checks));
  EXPECT_FALSE(IsFlaggedAsPublished(checks));
}

TEST(FilterChecks, FlagsSmallOutputsOnlyAsPublished) {
  TaskMeasures measures = Healthy();
  OutputMeasures& o = measures.outputs[0];
  o.lowest = -3e-5, o.highest = 3e-5, o.scale = 1e-5;
  o.seeds_std = o.inputs_std = 1e-5;
  for (auto& axis : o.axes) axis.std = 1e-5;
  for (const char* name : {"range", "deviation", "axes", "inputs"}) {
    const QualityCheck check = Find(measures, name);
    EXPECT_EQ(check.status, CheckStatus::kOk) << name;
    EXPECT_EQ(check.published, true) << name;
    EXPECT_THAT(check.reason, HasSubstr("the output's scale of 1e-05")) << name;
  }
}

TEST(FilterChecks, FlagsNearlyConstantLargeOutputsOnlyByCupelsThreshold) {
  TaskMeasures measures = Healthy();
  OutputMeasures& o = measures.outputs[0];
  o.lowest = 999, o.highest = 1001, o.scale = 1000;  // the deviations of 1 are 0.1 % of it
  for (const char* name : {"range", "deviation", "axes", "inputs"}) {
    const QualityCheck check = Find(measures, name);
    EXPECT_EQ(check.status, CheckStatus::kFlagged) << name;
    EXPECT_EQ(check.published, false) << name;
    EXPECT_FALSE(check.reason.empty()) << name;
  }
}

TEST(FilterChecks, AppliesThresholdsExactly) {
  TaskMeasures measures = Healthy();
  measures.outputs[0].seeds_std = 0.0099;
  EXPECT_EQ(Find(measures, "deviation").status, CheckStatus::kFlagged);
  EXPECT_EQ(Find(measures, "deviation").published, true);
  EXPECT_EQ(Find(measures, "axes").published, true) << "the published check also counts the seeds";
  EXPECT_EQ(Find(measures, "axes").status, CheckStatus::kOk);
  measures.outputs[0].seeds_std = 0.0101;
  EXPECT_EQ(Find(measures, "deviation").status, CheckStatus::kOk);
  EXPECT_EQ(Find(measures, "deviation").published, false);
}

TEST(FilterChecks, NonFiniteOutputsAreNeverSmallAsPublished) {
  TaskMeasures measures = Healthy();
  OutputMeasures& o = measures.outputs[0];
  o.lowest = o.highest = o.scale = 0;
  o.seeds_std = 0;
  EXPECT_EQ(Find(measures, "range").published, true);
  o.finite = 0.5;
  EXPECT_EQ(Find(measures, "range").published, false);
  EXPECT_EQ(Find(measures, "range").status, CheckStatus::kFlagged);
  o.finite = 0;
  EXPECT_THAT(Find(measures, "range").reason, HasSubstr("no element is finite"));
}

TEST(FilterChecks, FlagsDenormalOutputs) {
  TaskMeasures measures = Healthy();
  measures.outputs[0].lowest = -1e-40;
  measures.outputs[0].highest = 1e-39;
  EXPECT_THAT(Find(measures, "range").reason, HasSubstr("denormal"));
}

TEST(FilterChecks, PassesIfOneOutputDependsOnTheInputs) {
  TaskMeasures measures = Healthy();
  measures.outputs.push_back(measures.outputs[0]);
  measures.outputs[1].inputs_std = 0;
  EXPECT_EQ(Find(measures, "inputs").status, CheckStatus::kOk);
  measures.outputs[0].inputs_std = 0;
  EXPECT_EQ(Find(measures, "inputs").status, CheckStatus::kFlagged);
}

TEST(FilterChecks, JudgesWeightsIfTheyVary) {
  TaskMeasures measures = Healthy();
  EXPECT_EQ(Find(measures, "weights").status, CheckStatus::kNotApplicable);
  measures.has_weights = measures.weights_vary = true;
  measures.outputs[0].weights_std = 0.001;
  EXPECT_EQ(Find(measures, "weights").status, CheckStatus::kFlagged);
  EXPECT_FALSE(Find(measures, "weights").published.has_value());
  measures.outputs[0].weights_std = 0.5;
  EXPECT_EQ(Find(measures, "weights").status, CheckStatus::kOk);
}

TEST(FilterChecks, UsesModelsOpinionIfThereIsOne) {
  EXPECT_EQ(Find(Healthy(), "model_redundancy").status, CheckStatus::kNotAsked);
  EXPECT_EQ(Find(Healthy(), "model_redundancy").reason, "not asked: no model is configured");
  const ModelOpinion opinion{true, false, "the second ReLU does nothing"};
  EXPECT_EQ(Find(Healthy(), "model_redundancy", opinion).reason, opinion.text);
  EXPECT_EQ(Find(Healthy(), "model_inefficiency", opinion).status, CheckStatus::kOk);
}

TEST(FilterChecks, NamesUnusedArgumentsAndOperations) {
  TaskMeasures measures = Healthy();
  measures.arguments[0].idle = {{1, 4, 8}};
  EXPECT_THAT(Find(measures, "unused").reason, HasSubstr("x from 4 to 8 along axis 1"));
  ArgumentMeasures bias;
  bias.name = "bias";
  bias.matters = false;
  measures.arguments.push_back(bias);
  EXPECT_THAT(Find(measures, "unused").reason, HasSubstr("bias"));
  measures.arguments.back().written = true;
  EXPECT_THAT(Find(measures, "unused").reason, Not(HasSubstr("bias"))) << "it is updated";
  OperationMeasures relu;
  relu.name = "aten.relu";
  relu.file = "func_forward.py";
  relu.line = 12;
  measures.redundant = {relu};
  const QualityCheck flagged = Find(measures, "operations");
  EXPECT_EQ(flagged.status, CheckStatus::kFlagged);
  EXPECT_THAT(flagged.reason, HasSubstr("aten.relu at func_forward.py:12 can be left out"));
  measures.redundant[0].only_for = {"tiny inputs"};
  const QualityCheck noted = Find(measures, "operations");
  EXPECT_EQ(noted.status, CheckStatus::kOk);
  EXPECT_THAT(noted.measured, HasSubstr("matters only for tiny inputs"));
}

TEST(FilterChecks, ReportsChecksStoppedByDeadlineAsUnfinished) {
  TaskMeasures measures = Healthy();
  measures.operations = 9;
  measures.unfinished = "leaving out aten.mm";
  EXPECT_EQ(Find(measures, "operations").status, CheckStatus::kUnfinished);
  EXPECT_THAT(Find(measures, "operations").reason, HasSubstr("leaving out aten.mm"));
  measures.operations.reset();
  EXPECT_EQ(Find(measures, "operations").status, CheckStatus::kUnfinished);
}

}  // namespace
}  // namespace cupel::oracle
