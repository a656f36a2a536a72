// SPDX-License-Identifier: Apache-2.0
#include "serve/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/command.h"

namespace cupel::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHash(64, 'a');

Hello SomeHello() { return {kProtocol, "0.1.0", "abc", kHash, kHash, "node3", 42, 8}; }

Assignment SomeAssignment() {
  Assignment work;
  work.ticket = 7;
  work.item.id = "mnist forward";
  work.item.kernel = "/home/me/k.cu";
  work.item.flags = {"--no-fast-math"};
  work.item.backward = true;
  work.item.seed = UINT64_MAX;
  work.item.trials = 3;
  work.item.rounds = 100;
  work.item.thorough = work.item.explores = false;
  work.item.full_size = true;
  work.item.judged.verdict = {{"schema", "cupel.verdict/1"}};
  work.setting = "multi-3";
  work.source = std::string("text\0with \xff bytes", 17);
  work.task_path = "/tasks/t";
  work.task_hash = kHash;
  work.task = {"t", true, {{"func_forward.py", "import torch\n"}, {"config_forward.json", "{}"}}};
  return work;
}

std::vector<std::string> LinesOfWorkers() {
  Done done;
  done.ticket = 7;
  done.verdict = {{"schema", "cupel.verdict/1"}, {"error", 0.1}};
  done.seconds = 1.5;
  Done timed;
  timed.bench = {{"schema", "cupel.bench/1"}};
  Done stale;
  stale.is_stale = true;
  Done failed;
  failed.error = Error{ErrorCode::kIo, "disk", "buy"};
  OpenCases open;
  open.stream = 3;
  open.init = open.inputs = Json::object();
  open.seeds = {1, UINT64_MAX};
  return {LineOf(FromWorker(SomeHello())),
          LineOf(FromWorker(Ready{"gpu (h100)", true, "1.13", "worker", "GPU-5"})),
          LineOf(FromWorker(Alive{7, "single-0 trial 2", 2, 10})),
          LineOf(FromWorker(done)),
          LineOf(FromWorker(timed)),
          LineOf(FromWorker(stale)),
          LineOf(FromWorker(failed)),
          LineOf(FromWorker(open)),
          LineOf(FromWorker(NextCase{3})),
          LineOf(FromWorker(CloseCases{3})),
          LineOf(FromWorker(Fetch{kHash, 1 << 20})),
          LineOf(FromWorker(Failed{{ErrorCode::kEnvironment, "no GPU", "get one"}}))};
}

std::vector<std::string> LinesOfCoordinators() {
  Setup setup;
  setup.include_roots = {"/opt/cutlass"};
  setup.flags = {"-DX=1"};
  setup.engines = "gpu";
  CaseAnswer answer;
  answer.stream = 3;
  answer.sha256 = answer.content_hash = kHash;
  answer.bytes = 100;
  answer.warnings = {"a key is ignored"};
  CaseAnswer none;
  none.failure = oracle::SettingFailure{"no such size", true};
  return {LineOf(ToWorker(setup)),
          LineOf(ToWorker(SomeAssignment())),
          LineOf(ToWorker(answer)),
          LineOf(ToWorker(none)),
          LineOf(ToWorker(Chunk{kHash, 5, std::string("\0\xff", 2), {}})),
          LineOf(ToWorker(Alive{})),
          LineOf(ToWorker(Bye{}))};
}

TEST(Protocol, ReadsEveryMessageAsWritten) {
  for (const std::string& line : LinesOfWorkers()) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto message = ReadFromWorker(line);
    ASSERT_TRUE(message) << line << message.error().message;
    EXPECT_EQ(LineOf(*message), line);
  }
  for (const std::string& line : LinesOfCoordinators()) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto message = ReadToWorker(line);
    ASSERT_TRUE(message) << line << message.error().message;
    EXPECT_EQ(LineOf(*message), line);
  }
}

TEST(Protocol, KeepsEveryByteOfAKernel) {
  const auto message = ReadToWorker(LineOf(ToWorker(SomeAssignment())));
  ASSERT_TRUE(message);
  const auto& work = std::get<Assignment>(*message);
  EXPECT_EQ(work.source, SomeAssignment().source);
  EXPECT_EQ(work.item.seed, UINT64_MAX);
  EXPECT_EQ(work.item.flags, SomeAssignment().item.flags);
  EXPECT_EQ(work.task.files[0].bytes, "import torch\n");
}

TEST(Protocol, RejectsLinesTornAtAnyByte) {
  for (const std::string& line : LinesOfWorkers()) {
    for (size_t size = 0; size < line.size(); ++size) {
      EXPECT_FALSE(ReadFromWorker(line.substr(0, size))) << line.substr(0, size);
    }
  }
  for (const std::string& line : LinesOfCoordinators()) {
    for (size_t size = 0; size < line.size(); ++size) {
      EXPECT_FALSE(ReadToWorker(line.substr(0, size))) << line.substr(0, size);
    }
  }
}

/// Removes each member of every message, one at a time, then gives it another type.
TEST(Protocol, RequiresAndChecksEveryMember) {
  const auto try_all = [](const std::string& line, const auto& read) {
    const Json whole = *ParseJson(line, "line");
    for (const auto& [key, value] : whole.items()) {
      Json without = whole;
      without.erase(key);
      EXPECT_FALSE(read(DumpJson(without))) << line << " without " << key;
      Json other = whole;
      other[key] = value.is_number() ? Json("text") : Json(-1.5);
      EXPECT_FALSE(read(DumpJson(other))) << line << " with another " << key;
    }
  };
  for (const std::string& line : LinesOfWorkers()) try_all(line, ReadFromWorker);
  for (const std::string& line : LinesOfCoordinators()) try_all(line, ReadToWorker);
}

TEST(Protocol, RejectsHostileNamesNumbersAndHashes) {
  const auto with = [](const std::string& line, const char* pointer, const Json& value) {
    Json json = *ParseJson(line, "line");
    json[Json::json_pointer(pointer)] = value;
    return DumpJson(json);
  };
  const std::string work = LineOf(ToWorker(SomeAssignment()));
  for (const char* name : {"../x", "/etc/passwd", "..", "", "a/b"}) {
    EXPECT_FALSE(ReadToWorker(with(work, "/task/files/0/name", name))) << name;
    EXPECT_FALSE(ReadToWorker(with(work, "/task/name", name))) << name;
  }
  EXPECT_FALSE(ReadToWorker(with(work, "/trials", 0)));
  EXPECT_FALSE(ReadToWorker(with(work, "/rounds", 0)));
  EXPECT_FALSE(ReadToWorker(with(work, "/source", "not base64!")));
  EXPECT_FALSE(ReadToWorker(with(work, "/seed", "18446744073709551616")));
  EXPECT_FALSE(ReadToWorker(with(work, "/task_sha256", "ABC")));
  const std::string fetch = LineOf(FromWorker(Fetch{kHash, 0}));
  EXPECT_FALSE(ReadFromWorker(with(fetch, "/offset", -1)));
  EXPECT_FALSE(ReadFromWorker(with(fetch, "/sha256", "../../etc/passwd")));
}

TEST(Protocol, RejectsVerdictTogetherWithError) {
  Done both;
  both.verdict = Json::object();
  both.error = Error{};
  EXPECT_FALSE(ReadFromWorker(LineOf(FromWorker(both))));
  EXPECT_FALSE(ReadFromWorker(LineOf(FromWorker(Done{}))));
}

TEST(Protocol, FindsHelloAfterAPrompt) {
  const std::string hello = LineOf(FromWorker(SomeHello()));
  EXPECT_EQ(FindHello(hello), 0u);
  EXPECT_EQ(FindHello("$ " + hello), 2u);
  EXPECT_EQ(FindHello("Last login: never"), std::nullopt);
}

TEST(Command, SplitsLikeAShellWithoutExpansion) {
  EXPECT_THAT(*SplitCommand("srun -n1  --gpus=1\tcupel worker"),
              ElementsAre("srun", "-n1", "--gpus=1", "cupel", "worker"));
  EXPECT_THAT(*SplitCommand(R"(ssh host 'a b' "c \" d" e\ f '' $HOME)"),
              ElementsAre("ssh", "host", "a b", "c \" d", "e f", "", "$HOME"));
  EXPECT_FALSE(SplitCommand("  "));
  EXPECT_FALSE(SplitCommand("srun 'cupel worker"));
  EXPECT_FALSE(SplitCommand("srun \\"));
}

}  // namespace
}  // namespace cupel::serve
