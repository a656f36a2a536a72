// Here the archive already contains the verdicts, as when a run is repeated.
// tests/e2e/test_translate.py covers the path from source to verdict.
// SPDX-License-Identifier: Apache-2.0
#include "evolve/translator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "os/temp_dir.h"

namespace cupel::evolve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kWrong = "int wrong;\nPYBIND11_MODULE(a, m) {}\n";
constexpr const char* kRight = "int right;\nPYBIND11_MODULE(a, m) {}\n";

std::string Answer(const std::string& code) {
  return "NAME: first\nTHOUGHT: plainly\n\n```cuda\n" + code + "```\n";
}

class ScriptedTranslator final : public llm::Asker {
 public:
  ScriptedTranslator(std::string name, std::vector<std::string> answers)
      : name_(std::move(name)), answers_(std::move(answers)) {}
  Result<llm::Answer> Ask(std::string_view role, const llm::Request& request,
                          const llm::Call&) override {
    EXPECT_EQ(role, "translator");
    if (requests.size() == answers_.size()) return Fail(ErrorCode::kCancelled, "interrupted");
    llm::Answer answer;
    answer.text = answers_[requests.size()];
    answer.stop = answer.text == "no" ? llm::Stop::kRefusal : llm::Stop::kEnd;
    requests.push_back(request);
    return answer;
  }
  const std::string& model() const override { return name_; }
  std::string HashOf(const llm::Request& request) const override { return llm::HashOf(request); }

  std::vector<llm::Request> requests;

 private:
  std::string name_;
  std::vector<std::string> answers_;
};

class TranslatorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    archive::NewRun run;
    run.id = "run";
    run.task = "task";
    run.direction = "forward";
    run.task_hash = std::string(64, '0');
    auto archive = archive::Archive::Create(folder_->path() / "run.cupel", run);
    ASSERT_TRUE(archive) << archive.error().ToString();
    archive_.emplace(std::move(*archive));
  }

  /// Adds a candidate with a verdict to the archive; returns its id.
  int64_t Judged(const std::string& source, const std::string& decision,
                 const std::string& lessons) {
    archive::NewCandidate candidate;
    candidate.source = source;
    const auto added = archive_->AddCandidate(candidate);
    EXPECT_TRUE(added);
    archive::NewVerdict verdict;
    verdict.decision = decision;
    verdict.json = "{}";
    verdict.objective_kind = "estimated_us";
    const bool right = decision == "accepted";
    if (right) verdict.objective = 5;
    const archive::Stage stage{added->id, "judge", right,
                               DumpJson(right ? Json::object() : Json{{"lessons", lessons}}), 1};
    EXPECT_TRUE(archive_->RecordVerdict(added->id, verdict, stage));
    return added->id;
  }

  Result<Translation> Run(const std::vector<llm::Asker*>& models, int attempts = 10) {
    assay::Assay assay({});
    const auto objective = MakeEstimate();
    Events ignored;
    PartEvents events(ignored);
    EvaluatorOptions options;
    options.objective_text = [](double value) { return fmt::format("{} us", value); };
    Evaluator evaluator({*archive_, assay, *objective, events}, {}, options);
    return Translate(*archive_, evaluator, models, {attempts, "Add one."});
  }

  size_t UnusableEvents() {
    const auto events = archive_->Events();
    EXPECT_TRUE(events);
    return static_cast<size_t>(
        std::count_if(events->begin(), events->end(),
                      [](const archive::Event& event) { return event.kind == "unusable"; }));
  }

  std::optional<os::TempDir> folder_;
  std::optional<archive::Archive> archive_;
};

TEST_F(TranslatorTest, ReportsProblemsInTheSameConversationUntilAKernelIsCorrect) {
  const int64_t wrong = Judged(kWrong, "rejected", "- out_of_bounds, line 1\n");
  const int64_t right = Judged(kRight, "accepted", "");
  ScriptedTranslator model("test:a", {"I cannot say.", Answer(kWrong), Answer(kRight)});
  const auto translation = Run({&model});
  ASSERT_TRUE(translation) << translation.error().ToString();
  EXPECT_EQ(translation->kernel, right);
  ASSERT_EQ(translation->attempts.size(), 3u);
  EXPECT_FALSE(translation->attempts[0].candidate);
  EXPECT_EQ(translation->attempts[1].candidate, wrong);
  EXPECT_EQ(translation->attempts[1].name, "first");
  EXPECT_FALSE(translation->attempts[1].accepted);
  EXPECT_TRUE(translation->attempts[2].accepted);
  ASSERT_EQ(model.requests.size(), 3u);
  EXPECT_EQ(model.requests[0].messages.size(), 1u);
  EXPECT_THAT(model.requests[0].messages[0].text, HasSubstr("Add one."));
  EXPECT_THAT(model.requests[1].messages[2].text, HasSubstr("could not be used"));
  ASSERT_EQ(model.requests[2].messages.size(), 5u);
  EXPECT_THAT(model.requests[2].messages[4].text, HasSubstr("- out_of_bounds, line 1\n"));
  EXPECT_EQ(UnusableEvents(), 1u);
}

TEST_F(TranslatorTest, RepeatsARunWithoutDuplicateRecords) {
  Judged(kWrong, "rejected", "- wrong_result\n");
  ScriptedTranslator first("test:a", {"?", Answer(kWrong)});
  const auto interrupted = Run({&first});
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code, ErrorCode::kCancelled);
  const int64_t right = Judged(kRight, "accepted", "");
  ScriptedTranslator again("test:a", {"?", Answer(kWrong), Answer(kRight)});
  const auto translation = Run({&again});
  ASSERT_TRUE(translation);
  EXPECT_EQ(translation->kernel, right);
  EXPECT_EQ(UnusableEvents(), 1u);
  for (size_t i = 0; i < first.requests.size(); ++i) {
    EXPECT_EQ(llm::HashOf(first.requests[i]), llm::HashOf(again.requests[i]));
  }
}

TEST_F(TranslatorTest, StartsANewConversationWithTheNextModelAndTheFailures) {
  Judged(kWrong, "rejected", "- wrong_result, output 1\n");
  ScriptedTranslator a("test:a", std::vector<std::string>(kAnswersAConversation, Answer(kWrong)));
  ScriptedTranslator b("test:b", {"no"});
  const auto translation = Run({&a, &b}, kAnswersAConversation + 1);
  ASSERT_TRUE(translation);
  EXPECT_FALSE(translation->kernel);
  EXPECT_EQ(translation->attempts.size(), static_cast<size_t>(kAnswersAConversation) + 1);
  EXPECT_THAT(a.requests[1].messages.back().text, Not(HasSubstr("same kernel as before")));
  EXPECT_THAT(a.requests[2].messages.back().text, HasSubstr("same kernel as before"));
  ASSERT_EQ(b.requests.size(), 1u);
  EXPECT_EQ(a.requests[0].sample, 1);  // 0 means that a question has no number
  EXPECT_EQ(b.requests[0].sample, 2);
  EXPECT_EQ(b.requests[0].messages.size(), 1u);
  EXPECT_THAT(b.requests[0].messages[0].text, HasSubstr("- wrong_result, output 1\n"));
  EXPECT_THAT(translation->attempts.back().problem, HasSubstr("refused"));
}

TEST_F(TranslatorTest, StopsIfTheTaskCannotBeJudged) {
  Judged(kWrong, "error", "- nothing_judged\n");
  ScriptedTranslator model("test:a", {Answer(kWrong)});
  const auto translation = Run({&model});
  ASSERT_FALSE(translation);
  EXPECT_EQ(translation.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(translation.error().message, HasSubstr("nothing_judged"));
}

}  // namespace
}  // namespace cupel::evolve
