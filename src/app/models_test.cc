// SPDX-License-Identifier: Apache-2.0
#include "app/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "llm/transcript.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace {

using testing::HasSubstr;

llm::Request RequestFor(const std::string& text) {
  llm::Request request;
  request.messages.push_back({llm::Role::kUser, text});
  return request;
}

class OpenedModelsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    options_.specs = {"command:/bin/cat"};  // repeats the question
    options_.transcript = folder_->path() / "transcript.jsonl";
  }
  std::optional<os::TempDir> folder_;
  ModelOptions options_;
};

TEST_F(OpenedModelsTest, RecordsAnswersAndUsesThemAgain) {
  {
    const auto models = OpenedModels::Open(options_);
    ASSERT_TRUE(models) << models.error().message;
    ASSERT_EQ((*models)->askers().size(), 1u);
    const auto answer = (*models)->askers()[0]->Ask("reviewer:memory", RequestFor("ping"));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_THAT(answer->text, HasSubstr("ping"));
  }
  const auto recorded = llm::ReadTranscript(options_.transcript);
  ASSERT_TRUE(recorded);
  ASSERT_EQ(recorded->exchanges.size(), 1u);
  EXPECT_EQ(recorded->exchanges[0].role, "reviewer:memory");

  const auto models = OpenedModels::Open(options_);
  ASSERT_TRUE(models);
  ASSERT_TRUE((*models)->askers()[0]->Ask("reviewer:memory", RequestFor("ping")));
  EXPECT_EQ(llm::ReadTranscript(options_.transcript)->exchanges.size(), 1u);
  ASSERT_TRUE((*models)->askers()[0]->Ask("reviewer:memory", RequestFor("pong")));
  EXPECT_EQ(llm::ReadTranscript(options_.transcript)->exchanges.size(), 2u);
}

TEST_F(OpenedModelsTest, CountsEarlierSpending) {
  const auto transcript = llm::Transcript::Open(options_.transcript);
  ASSERT_TRUE(transcript);
  llm::Exchange exchange;
  exchange.request = RequestFor("earlier");
  exchange.hash = llm::HashOf(exchange.request);
  exchange.worst = {900, 90};
  ASSERT_TRUE((*transcript)->Began(exchange));  // never ended: it may have cost all of it
  exchange.attempt = 2;
  ASSERT_TRUE((*transcript)->Began(exchange));
  exchange.spent = {50, 5};
  ASSERT_TRUE((*transcript)->Ended(exchange));
  const auto models = OpenedModels::Open(options_);
  ASSERT_TRUE(models);
  EXPECT_EQ((*models)->Spent().money, 950);
  EXPECT_EQ((*models)->Spent().tokens, 95);
}

TEST_F(OpenedModelsTest, TakesLimitsFromTheOptions) {
  options_.budget_usd = 1.5;
  options_.budget_tokens = 1000;
  const auto models = OpenedModels::Open(options_);
  ASSERT_TRUE(models);
  EXPECT_EQ((*models)->budget().limits().money, std::optional<llm::NanoUsd>(1500000000));
  EXPECT_EQ((*models)->budget().limits().tokens, std::optional<int64_t>(1000));
}

TEST_F(OpenedModelsTest, ReportsInvalidOptionsAndTranscripts) {
  options_.specs = {};
  EXPECT_THAT(OpenedModels::Open(options_).error().remedy, HasSubstr("--model"));
  options_.specs = {"unknown:x"};
  EXPECT_FALSE(OpenedModels::Open(options_));
  options_.specs = {"command:/bin/cat"};
  ASSERT_TRUE(os::WriteFileAtomically(options_.transcript, "no transcript\n"));
  EXPECT_FALSE(OpenedModels::Open(options_));
}

}  // namespace
}  // namespace cupel::app
