// Models without a web service: commands, mailboxes, recordings.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <stop_token>
#include <thread>

#include "llm/command.h"
#include "llm/mailbox.h"
#include "llm/open.h"
#include "llm/replay.h"
#include "llm/transcript.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::llm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

Request Ask(const std::string& text, int64_t sample = 0) {
  Request request;
  request.model = "m";
  request.messages = {{Role::kUser, text}};
  request.sample = sample;
  return request;
}

Reply AskProgram(const std::string& script, const std::string& prompt, milliseconds deadline,
                 const Call& call = {}) {
  CommandOptions options;
  options.argv = {"sh", "-c", script};
  options.deadline = deadline;
  options.max_bytes = 100000;
  return CommandProvider(options).value()->Ask(Ask(prompt), call);
}

TEST(CommandTest, PassesThePromptAndReturnsTheAnswer) {
  const std::string long_prompt(1 << 20, 'p');
  EXPECT_EQ(AskProgram("wc -c", long_prompt, milliseconds(20000)).answer.text, "1048576\n");
  std::string received;
  const Call call{[&](std::string_view piece) { received += piece; }};
  EXPECT_EQ(AskProgram("tr a-z A-Z", "hi", milliseconds(20000), call).answer.text, "HI");
  EXPECT_EQ(received, "HI");
}

TEST(CommandTest, ReportsWhyThereIsNoAnswer) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo trouble >&2; exit 3", "trouble"},
      {"true", "printed no answer"},
      {"yes | head -c 200000", "more than 100000 bytes"},
      {"kill -9 $$", "SIGKILL"},
  };
  for (const auto& [script, message] : cases) {
    const Reply reply = AskProgram(script, "x", milliseconds(20000));
    ASSERT_TRUE(reply.failure) << script;
    EXPECT_NE(reply.failure->error.message.find(message), std::string::npos)
        << reply.failure->error.message;
    EXPECT_FALSE(reply.failure->retry);
  }
  EXPECT_EQ(AskProgram("sleep 20", "x", milliseconds(100)).failure->error.code,
            ErrorCode::kTimeout);
  CommandOptions absent;
  absent.argv = {"cupel-no-such-program"};
  EXPECT_EQ(CommandProvider(absent).error().code, ErrorCode::kNotFound);
}

TEST(CommandTest, CanBeStopped) {
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  const Reply reply = AskProgram("sleep 20", "x", milliseconds(20000), {{}, {}, stop.get_token()});
  stopper.join();
  EXPECT_EQ(reply.failure->error.code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

class MailboxTest : public testing::Test {
 protected:
  std::unique_ptr<Provider> Open(std::optional<milliseconds> deadline) {
    MailboxOptions options;
    options.folder = folder_.path() / "box";
    options.deadline = deadline;
    options.poll = milliseconds(5);
    options.settle = milliseconds(100);
    return MailboxProvider(options).value();
  }
  fs::path File(const Request& request, const char* end) const {
    return folder_.path() / "box" / (MailboxName(request) + end);
  }
  os::TempDir folder_ = os::TempDir::Create().value();
};

TEST_F(MailboxTest, FindsAnUnansweredRequestAgainAfterARestart) {
  const Request request = Ask("write a kernel");
  const Reply first = Open(milliseconds(50))->Ask(request, {});
  EXPECT_EQ(first.failure->error.code, ErrorCode::kTimeout);
  const fs::path question = File(request, ".request.md");
  const std::string text = os::ReadFile(question, 1 << 20).value();
  EXPECT_NE(text.find("write a kernel"), std::string::npos);
  EXPECT_NE(text.find(MailboxName(request) + ".answer.md"), std::string::npos);

  // After a restart the same question is not written again, and its answer is found.
  const auto written = fs::last_write_time(question);
  ASSERT_TRUE(os::WriteFileAtomically(File(request, ".answer.md"), "the kernel"));
  EXPECT_EQ(Open({})->Ask(request, {}).answer.text, "the kernel");
  EXPECT_EQ(fs::last_write_time(question), written);
  // Another sample of the same prompt is another question.
  EXPECT_TRUE(Open(milliseconds(20))->Ask(Ask("write a kernel", 1), {}).failure);
}

TEST_F(MailboxTest, SaysWhatAQuestionIsForAndListsTheOpenOnes) {
  const Request first = Ask("write a kernel"), second = Ask("write a kernel", 1);
  Call call;
  call.role = "proposer";
  call.about = "generation 2, proposal 1 (rewrite), from candidate 7 (a --> b)";
  Open(milliseconds(20))->Ask(first, call);
  Open(milliseconds(20))->Ask(second, {});
  const auto list = [&] { return os::ReadFile(folder_.path() / "box/open.txt", 1 << 20).value(); };
  const std::string purpose =
      "proposer, generation 2, proposal 1 (rewrite), from candidate 7 (a - -> b)";
  EXPECT_NE(os::ReadFile(File(first, ".request.md"), 1 << 20)->find(purpose), std::string::npos);
  EXPECT_NE(list().find(MailboxName(first) + ".request.md  " + purpose + "\n"), std::string::npos);
  EXPECT_NE(list().find(MailboxName(second) + ".request.md  question\n"), std::string::npos);
  ASSERT_TRUE(os::WriteFileAtomically(File(first, ".answer.md"), "the kernel"));
  Open({})->Ask(first, call);
  EXPECT_EQ(list().find(MailboxName(first)), std::string::npos);
  EXPECT_NE(list().find(MailboxName(second)), std::string::npos);
}

TEST_F(MailboxTest, WaitsUntilAnAnswerIsWhole) {
  const Request request = Ask("q");
  const auto box = Open({});
  std::thread writer([&] {
    std::ofstream out(File(request, ".answer.md"));
    for (int i = 0; i < 10; ++i) {
      out << i << std::flush;
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_EQ(box->Ask(request, {}).answer.text, "0123456789");
  writer.join();
}

TEST_F(MailboxTest, CanBeStopped) {
  std::stop_source stop;
  stop.request_stop();
  const Reply reply = Open({})->Ask(Ask("q"), {{}, {}, stop.get_token()});
  EXPECT_EQ(reply.failure->error.code, ErrorCode::kCancelled);
  EXPECT_TRUE(fs::exists(File(Ask("q"), ".request.md")));
}

Exchange Made(const Request& request, const std::string& text) {
  Exchange exchange;
  exchange.request = request;
  exchange.hash = HashOf(request);
  exchange.worst = {1000, 100};
  exchange.answer.text = text;
  exchange.answer.usd = 0.5;
  exchange.spent = {10, 7};
  return exchange;
}

class TranscriptTest : public testing::Test {
 protected:
  os::TempDir folder_ = os::TempDir::Create().value();
  fs::path file_ = folder_.path() / "run.jsonl";
};

TEST_F(TranscriptTest, ReplaysARunAtNoCost) {
  Request hostile = Ask("bytes \xff\xfe and \"quotes\"\n");
  hostile.system = "s";
  hostile.sampling.temperature = 0.1;
  Exchange failed = Made(Ask("b"), "half an ans");
  failed.failure = Failure{{ErrorCode::kIo, "cut", ""}, true, {}};
  {
    const auto transcript = Transcript::Open(file_).value();
    for (const Exchange& e : {Made(hostile, "A\u00e9\n"), failed, Made(Ask("b"), "B")}) {
      ASSERT_TRUE(transcript->Began(e));
      ASSERT_TRUE(transcript->Ended(e));
    }
  }
  const Recorded recorded = ReadTranscript(file_).value();
  const auto replay = ReplayProvider(recorded.exchanges, "run.jsonl");
  EXPECT_EQ(replay->Ask(hostile, {}).answer.text, "A\u00e9\n");
  EXPECT_EQ(replay->Ask(hostile, {}).answer.usd, 0);
  Request renamed = Ask("b");
  renamed.model = "another";
  EXPECT_EQ(replay->Ask(renamed, {}).answer.text, "B");
  const Reply missing = replay->Ask(Ask("never asked", 4), {});
  ASSERT_TRUE(missing.failure);
  EXPECT_FALSE(missing.failure->retry);
  for (const char* part : {"never asked", "run.jsonl", "sample 4"}) {
    EXPECT_NE(missing.failure->error.message.find(part), std::string::npos);
  }
}

TEST_F(TranscriptTest, ReplayReturnsAnswersBitForBit) {
  Request request = Ask("what \xff is");
  std::string first;
  {
    const auto transcript = Transcript::Open(file_).value();
    OpenOptions open_options;
    open_options.sink = transcript.get();
    const auto models = OpenModels({ParseModelSpec("command:cat").value()}, open_options);
    first = models->clients[0]->Ask(request)->text;
  }
  const auto replay = OpenModels({ParseModelSpec("replay:" + file_.string()).value()}, {});
  EXPECT_NE(first.find("what "), std::string::npos);
  EXPECT_EQ(replay->clients[0]->Ask(request)->text, first);
}

TEST_F(TranscriptTest, CountsExchangesThatNeverEnded) {
  {
    const auto transcript = Transcript::Open(file_).value();
    ASSERT_TRUE(transcript->Began(Made(Ask("a"), "")));
    ASSERT_TRUE(transcript->Ended(Made(Ask("a"), "A")));
    ASSERT_TRUE(transcript->Began(Made(Ask("b"), "")));
  }
  EXPECT_EQ(ReadTranscript(file_)->spent.money, 1010);
  EXPECT_EQ(ReadTranscript(file_)->spent.tokens, 107);
}

TEST_F(TranscriptTest, SurvivesAPowerLossWithinALine) {
  ASSERT_TRUE(Transcript::Open(file_).value()->Ended(Made(Ask("a"), "A")));
  std::ofstream(file_, std::ios::app) << "{\"kind\": \"ended\", \"ha";
  EXPECT_EQ(ReadTranscript(file_)->exchanges.size(), 1u);
  ASSERT_TRUE(Transcript::Open(file_).value()->Ended(Made(Ask("b"), "B")));
  EXPECT_EQ(ReadTranscript(file_)->exchanges.size(), 2u);
  std::ofstream(file_, std::ios::app) << "{\"kind\": 3}\n";
  EXPECT_FALSE(ReadTranscript(file_));
}

TEST_F(TranscriptTest, OpensBySpec) {
  ASSERT_TRUE(Transcript::Open(file_).value()->Ended(Made(Ask("a"), "A")));
  const auto models = OpenModels({ParseModelSpec("replay:" + file_.string()).value(),
                                  ParseModelSpec("command:cat @name=echo").value()},
                                 {});
  ASSERT_TRUE(models) << models.error().message;
  Request request = Ask("to and fro");
  EXPECT_EQ(models->clients[1]->Ask(request)->text, "to and fro");
  EXPECT_EQ(models->clients[1]->name(), "echo");
  EXPECT_EQ(models->clients[0]->Ask(request).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace cupel::llm
