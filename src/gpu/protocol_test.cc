// SPDX-License-Identifier: Apache-2.0
#include "gpu/protocol.h"

#include <gtest/gtest.h>

#include "base/error_json.h"
#include "base/json.h"

namespace cupel::gpu {
namespace {

engine::Run SomeRun() {
  engine::Run run;
  run.completed = true;
  run.seconds = 0.5;
  engine::OutputTensor output;
  output.dtype = DType::kF16;
  output.shape = {2, 3};
  for (int i = 0; i < 12; ++i) output.bytes.push_back(static_cast<std::byte>(i));
  engine::OutputTensor none;
  none.is_none = true;
  run.outputs = {output, none, output};
  records::Finding finding;
  finding.code = "out_of_bounds";
  finding.severity = records::Severity::kWarning;
  finding.where = "argument 1 + 4 bytes";
  finding.message = "x";
  run.findings.push_back(finding);
  return run;
}

TEST(Protocol, RoundTripsRuns) {
  auto ours = SharedMemory::Create();
  ASSERT_TRUE(ours.has_value());
  const auto json = RunToJson(SomeRun(), 1000, *ours);
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto run = RunFromJson(*json, *ours);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->completed);
  ASSERT_EQ(run->outputs.size(), 3u);
  EXPECT_EQ(run->outputs[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(run->outputs[2].bytes, SomeRun().outputs[2].bytes);
  EXPECT_TRUE(run->outputs[1].is_none);
  ASSERT_EQ(run->findings.size(), 1u);
  EXPECT_EQ(run->findings[0].severity, records::Severity::kWarning);
  EXPECT_EQ(run->findings[0].where, "argument 1 + 4 bytes");
}

TEST(Protocol, RejectsInvalidOutputs) {
  auto memory = SharedMemory::Create();
  ASSERT_TRUE(memory.has_value());
  const auto json = RunToJson(SomeRun(), 0, *memory);
  ASSERT_TRUE(json.has_value());
  for (const Json& bad :
       {Json{{"shape", {-1}}}, Json{{"shape", {int64_t{1} << 40, 1 << 20}}}, Json{{"at", -8}},
        Json{{"dtype", "float31"}}, Json{{"none", 3}}, Json{{"at", int64_t{1} << 62}}}) {
    Json invalid = *json;
    invalid["outputs"][0].update(bad);
    EXPECT_FALSE(RunFromJson(invalid, *memory).has_value()) << bad.dump();
  }
  EXPECT_FALSE(RunFromJson(Json::object(), *memory).has_value());
}

TEST(Protocol, ErrorsKeepTheirCode) {
  const Error error = ErrorFromJson(ErrorToJson({ErrorCode::kEnvironment, "m", "r"}));
  EXPECT_EQ(error.code, ErrorCode::kEnvironment);
  EXPECT_EQ(error.message, "m");
  EXPECT_EQ(error.remedy, "r");
}

}  // namespace
}  // namespace cupel::gpu
