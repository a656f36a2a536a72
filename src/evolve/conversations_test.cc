// SPDX-License-Identifier: Apache-2.0
#include "evolve/conversations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "llm/spec.h"
#include "os/temp_dir.h"

namespace cupel::evolve {
namespace {

namespace fs = std::filesystem;

class ConversationsTest : public ::testing::Test {
 protected:
  ConversationsTest() : folder_(*os::TempDir::Create()), archive_(Create("run.cupel")) {
    // Answers with the number of times it was asked.
    const fs::path program = folder_.path() / "model.sh";
    std::ofstream(program) << "#!/bin/sh\ncat >/dev/null\necho x >>" << (folder_.path() / "asked")
                           << "\necho answer $(wc -l <" << (folder_.path() / "asked") << ")\n";
    fs::permissions(program, fs::perms::owner_all);
    specs_ = {*llm::ParseModelSpec("command:" + program.string())};
  }

  archive::Archive Create(const char* name) {
    archive::NewRun run;
    run.id = "run";
    run.task = "t";
    run.direction = "forward";
    return *archive::Archive::Create(folder_.path() / name, run);
  }
  static llm::Request Question(std::string text) {
    llm::Request request;
    request.messages = {{llm::Role::kUser, std::move(text)}};
    return request;
  }

  os::TempDir folder_;
  archive::Archive archive_;
  std::vector<llm::ModelSpec> specs_;
};

TEST_F(ConversationsTest, DoesNotRepeatAnsweredQuestions) {
  for (int round = 0; round < 2; ++round) {  // as after a resume
    const auto conversations = *Conversations::Open(archive_, specs_, {});
    llm::Asker& asker = *conversations->askers()[0];
    EXPECT_EQ(asker.Ask("proposer", Question("a"))->text, "answer 1\n");
    llm::Request other = Question("a");
    other.sample = 1;
    EXPECT_EQ(asker.Ask("proposer", other)->text, "answer 2\n");
  }
  const auto exchanges = *archive_.Exchanges();
  ASSERT_EQ(exchanges.size(), 2u);
  EXPECT_EQ(exchanges[0].role, "proposer");
  EXPECT_THAT(exchanges[0].request, testing::HasSubstr("\"a\""));
  EXPECT_EQ(exchanges[0].end->error, "");
}

TEST_F(ConversationsTest, RecordsAndRepeatsFailedQuestions) {
  fs::remove(folder_.path() / "model.sh");
  std::ofstream(folder_.path() / "model.sh") << "#!/bin/sh\nexit 3\n";
  fs::permissions(folder_.path() / "model.sh", fs::perms::owner_all);
  const auto conversations = *Conversations::Open(archive_, specs_, {});
  llm::Asker& asker = *conversations->askers()[0];
  EXPECT_FALSE(asker.Ask("proposer", Question("a")));
  EXPECT_FALSE(asker.Ask("proposer", Question("a")));
  const auto exchanges = *archive_.Exchanges();
  ASSERT_GE(exchanges.size(), 2u);
  EXPECT_THAT(exchanges[0].end->error, testing::HasSubstr("3"));
  EXPECT_THAT(*RecordedExchanges(archive_), testing::IsEmpty());
}

TEST_F(ConversationsTest, ReplaysARunWithoutItsModel) {
  {
    const auto conversations = *Conversations::Open(archive_, specs_, {});
    ASSERT_TRUE(conversations->askers()[0]->Ask("proposer", Question("a")));
  }
  fs::remove(folder_.path() / "model.sh");
  const auto recorded = *RecordedExchanges(archive_);
  archive::Archive again = Create("again.cupel");
  llm::RecordedOptions options;
  options.replay = &recorded;
  const auto conversations = *Conversations::Open(again, specs_, options);
  EXPECT_EQ(conversations->askers()[0]->Ask("proposer", Question("a"))->text, "answer 1\n");
  const auto unknown = conversations->askers()[0]->Ask("proposer", Question("b"));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("the recorded run has no answer"));
  EXPECT_EQ(again.Exchanges()->front().hash, archive_.Exchanges()->front().hash);
}

TEST_F(ConversationsTest, ReplaysANumberedQuestionAfterItsWordingChanged) {
  llm::Request numbered = Question("Make it fast.");
  numbered.sample = 2'000'001;
  {
    const auto conversations = *Conversations::Open(archive_, specs_, {});
    ASSERT_TRUE(conversations->askers()[0]->Ask("proposer", numbered));
  }
  const auto recorded = *RecordedExchanges(archive_);
  archive::Archive again = Create("again.cupel");
  llm::RecordedOptions options;
  options.replay = &recorded;
  const auto conversations = *Conversations::Open(again, specs_, options);
  llm::Asker& asker = *conversations->askers()[0];
  numbered.messages[0].text = "Make it as fast as you can.";
  EXPECT_FALSE(asker.Ask("summariser", numbered));
  EXPECT_EQ(asker.Ask("proposer", numbered)->text, "answer 1\n");
  numbered.sample = 2'000'002;
  EXPECT_FALSE(asker.Ask("proposer", numbered));
}

TEST_F(ConversationsTest, CountsSpendingBeforeAResume) {
  archive::NewExchange before{"proposer", "m", "h", "{}", 1, 500, 70};
  ASSERT_TRUE(archive_.BeginExchange(before));
  const auto conversations = *Conversations::Open(archive_, specs_, {});
  EXPECT_EQ(conversations->Spent().money, 70);
  EXPECT_EQ(conversations->Spent().tokens, 500);
}

}  // namespace
}  // namespace cupel::evolve
