// SPDX-License-Identifier: Apache-2.0
#include "archive/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>

#include "archive/schema.h"
#include "base/hash.h"
#include "base/random.h"
#include "os/temp_dir.h"

namespace cupel::archive {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ArchiveTest : public testing::Test {
 protected:
  ArchiveTest() : folder_(*os::TempDir::Create()), file_(folder_.path() / "run-1.cupel") {}

  static NewRun Run1() {
    NewRun run;
    run.id = "run-1";
    run.task = "mnist_linear";
    run.direction = "forward";
    run.task_hash = "abc";
    run.cupel_version = "0.1.0";
    run.config = R"({"trials": 5})";
    run.seed = ~uint64_t{0};
    return run;
  }
  static NewCandidate Source(std::string source, std::vector<int64_t> parents = {}) {
    NewCandidate candidate;
    candidate.source = std::move(source);
    candidate.proposer = "tuner";
    candidate.parents = std::move(parents);
    return candidate;
  }
  static NewVerdict Accepted(double us) {
    NewVerdict verdict;
    verdict.decision = "accepted";
    verdict.json = "{}";
    verdict.objective = us;
    verdict.objective_kind = "estimated_us";
    return verdict;
  }
  static NewVerdict Rejected() {
    NewVerdict verdict;
    verdict.decision = "rejected";
    verdict.json = "{}";
    return verdict;
  }
  Archive Create() {
    auto archive = Archive::Create(file_, Run1());
    EXPECT_TRUE(archive) << archive.error().ToString();
    return *std::move(archive);
  }

  os::TempDir folder_;
  fs::path file_;
};

/// Marks the oldest queued candidate as evaluating, as a driver does.
Result<std::optional<Candidate>> ClaimNext(Archive& archive) {
  TRY_ASSIGN(const auto queued, archive.List(CandidateStatus::kQueued));
  if (queued.empty()) return std::nullopt;
  TRY(archive.MarkEvaluating(queued.front().id));
  TRY_ASSIGN(Candidate candidate, archive.Get(queued.front().id));
  return candidate;
}

template <typename T>
void ExpectError(const Result<T>& result, ErrorCode code, const char* text) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().ToString();
  EXPECT_THAT(result.error().ToString(), HasSubstr(text));
}

TEST_F(ArchiveTest, KeepsTheRun) {
  {
    Archive archive = Create();
    EXPECT_EQ(*archive.State(), "null");
    ASSERT_TRUE(archive.PutState(R"({"generation":3})"));
    ASSERT_TRUE(archive.SetStatus(RunStatus::kStopped));
  }
  const auto archive = Archive::Open(file_);
  const RunInfo run = *archive->Run();
  EXPECT_EQ(run.id, "run-1");
  EXPECT_EQ(run.task, "mnist_linear");
  EXPECT_EQ(run.seed, ~uint64_t{0});
  EXPECT_EQ(run.config, R"({"trials": 5})");
  EXPECT_EQ(run.status, RunStatus::kStopped);
  EXPECT_GT(run.created_ms, 1'600'000'000'000);
  EXPECT_EQ(*archive->State(), R"({"generation":3})");
}

TEST_F(ArchiveTest, LeavesOneFileWhenClosed) {
  {
    Create();
  }
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.path())) ++files;
  EXPECT_EQ(files, 1);
}

TEST_F(ArchiveTest, QueuesCandidatesOnceAndInOrder) {
  Archive archive = Create();
  const auto first = *archive.AddCandidate(Source("__global__ a"));
  const auto second = *archive.AddCandidate(Source("__global__ b", {first.id}));
  const auto again = *archive.AddCandidate(Source("__global__ a", {second.id}));
  EXPECT_TRUE(first.added && second.added);
  EXPECT_FALSE(again.added);
  EXPECT_EQ(again.id, first.id);
  EXPECT_THAT(archive.Get(first.id)->parents, testing::IsEmpty());

  EXPECT_EQ((*ClaimNext(archive))->id, first.id);
  EXPECT_EQ((*ClaimNext(archive))->id, second.id);
  EXPECT_FALSE(*ClaimNext(archive));
  EXPECT_EQ(archive.Count()->evaluating, 2);
  EXPECT_EQ(*archive.RequeueInterrupted(), 2);
  EXPECT_EQ((*ClaimNext(archive))->id, first.id);
  EXPECT_EQ(*archive.Source(second.id), "__global__ b");
  EXPECT_EQ((*archive.FindBySource("__global__ b"))->id, second.id);
  EXPECT_FALSE(*archive.FindBySource("__global__ c"));
}

TEST_F(ArchiveTest, LatestVerdictDecidesWhichIsBest) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id,
                b = archive.AddCandidate(Source("b"))->id,
                c = archive.AddCandidate(Source("c"))->id;
  EXPECT_FALSE(*archive.Best());
  ASSERT_TRUE(archive.RecordVerdict(a, Accepted(9)));
  ASSERT_TRUE(archive.RecordVerdict(b, Accepted(3)));
  ASSERT_TRUE(archive.RecordVerdict(c, Accepted(3)));
  EXPECT_EQ((*archive.Best())->id, b);                // the older of equals
  ASSERT_TRUE(archive.RecordVerdict(b, Rejected()));  // on fresh cases
  EXPECT_EQ((*archive.Best())->id, c);
  EXPECT_EQ(archive.BestOf(10)->size(), 2u);
  const Counts counts = *archive.Count();
  EXPECT_EQ(counts.done, 3);
  EXPECT_EQ(counts.accepted, 2);
  EXPECT_EQ(counts.rejected, 1);
  EXPECT_EQ((*archive.LatestVerdict(b))->decision, "rejected");
}

TEST_F(ArchiveTest, RecordsVerdictAndStageInOneTransaction) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id;
  ASSERT_TRUE(archive.RecordVerdict(a, Accepted(1), {a, "judge", true, "{}", 2}));
  ExpectError(archive.RecordVerdict(a, Rejected(), {a, "judge", false, "{broken", 2}),
              ErrorCode::kInvalidArgument, "detail");
  EXPECT_EQ(archive.Stages()->size(), 1u);
  EXPECT_EQ(archive.Get(a)->decision, "accepted");
}

TEST_F(ArchiveTest, PutsStateAndEventInOneTransaction) {
  Archive archive = Create();
  ASSERT_TRUE(archive.PutState("1", "generation", R"({"generation":1})"));
  ExpectError(archive.PutState("2", "generation", "{broken"), ErrorCode::kInvalidArgument,
              "detail");
  EXPECT_EQ(*archive.State(), "1");
  EXPECT_EQ(archive.Events()->size(), 1u);
}

TEST_F(ArchiveTest, ReturnsTheLineage) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id,
                b = archive.AddCandidate(Source("b"))->id;
  const int64_t c = archive.AddCandidate(Source("c", {b, a}))->id;
  const int64_t d = archive.AddCandidate(Source("d", {c}))->id;
  std::vector<int64_t> ids;
  const auto line = *archive.Lineage(d);
  for (const Candidate& candidate : line) ids.push_back(candidate.id);
  EXPECT_THAT(ids, ElementsAre(b, c, d));
  EXPECT_THAT(archive.Get(c)->parents, ElementsAre(b, a));
}

TEST_F(ArchiveTest, KeepsSamplesCostsAndEvents) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id;
  const int64_t verdict = *archive.RecordVerdict(a, Accepted(1));
  ASSERT_TRUE(archive.AddSamples(
      verdict, {{"single-0", "gpu", "candidate", {2, 1}}, {"single-0", "gpu", "eager", {7}}}));
  const auto samples = *archive.Samples(verdict);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_THAT(samples[0].us, ElementsAre(2, 1));
  ASSERT_TRUE(archive.AddCost({{}, "llm", "m", 10, 2, 1.5, 0.25}));
  ASSERT_TRUE(archive.AddCost({a, "llm", "m", 5, 1, 1, 0.5}));
  EXPECT_EQ(archive.CostsByKind()->at(0).input_tokens, 15);
  ASSERT_TRUE(archive.AddEvent("new_best", R"({"id":1})"));
  EXPECT_EQ(archive.Events()->at(0).kind, "new_best");
}

TEST_F(ArchiveTest, RecordsQuestionBeforeItsAnswer) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id;
  NewExchange question{"proposer", "openai:m", "h1", R"({"messages":[]})", 1, 500, 70};
  const int64_t first = *archive.BeginExchange(question);
  EXPECT_FALSE(*archive.AnswerTo("h1"));
  EXPECT_FALSE(archive.Exchanges()->at(0).end);
  EXPECT_EQ(archive.ExchangesCharged()->nano_usd, 70);  // the largest cost, since it has no end

  ExchangeEnd cut;
  cut.error = "the stream was cut";
  cut.charged_tokens = 100;
  cut.charged_nano_usd = 20;
  ASSERT_TRUE(archive.EndExchange(first, cut));
  EXPECT_FALSE(*archive.AnswerTo("h1"));  // a failed attempt is not an answer
  question.attempt = 2;
  const int64_t second = *archive.BeginExchange(question);
  ExchangeEnd end;
  end.answer = R"({"text":"fine"})";
  end.input_tokens = 5;
  end.charged_tokens = 7;
  end.charged_nano_usd = 3;
  ASSERT_TRUE(archive.EndExchange(second, end));
  EXPECT_EQ(*archive.AnswerTo("h1"), R"({"text":"fine"})");
  EXPECT_EQ(archive.ExchangesCharged()->nano_usd, 23);
  EXPECT_EQ(archive.ExchangesCharged()->tokens, 107);
  ExpectError(archive.EndExchange(second, end), ErrorCode::kInvalidArgument, "no open exchange");

  ASSERT_TRUE(archive.AttributeExchange("h1", a));
  const auto all = *archive.Exchanges();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].end->error, "the stream was cut");
  EXPECT_EQ(all[1].candidate, a);
  EXPECT_EQ(all[1].request, R"({"messages":[]})");
}

TEST_F(ArchiveTest, DropsCandidateBeforeItIsJudged) {
  Archive archive = Create();
  NewCandidate candidate = Source("a");
  candidate.meta = R"({"operator":"rewrite"})";
  const int64_t a = archive.AddCandidate(candidate)->id;
  const int64_t b = archive.AddCandidate(Source("b"))->id;
  ASSERT_TRUE(archive.AddStage({b, "novelty", true, "{}", 0.5}));
  ASSERT_TRUE(archive.Drop({a, "review", false, R"({"votes":2})", 3}));
  EXPECT_EQ(archive.Get(a)->meta, R"({"operator":"rewrite"})");
  EXPECT_EQ(archive.Get(a)->status, CandidateStatus::kDone);
  EXPECT_EQ(archive.Count()->dropped, 1);
  EXPECT_EQ(archive.Count()->queued, 1);
  const auto stages = *archive.Stages();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].candidate, a);
  EXPECT_FALSE(stages[0].passed);
  EXPECT_EQ(stages[0].detail, R"({"votes":2})");
  EXPECT_EQ(stages[1].name, "novelty");
  ExpectError(archive.Drop({99, "review", false, "{}", 0}), ErrorCode::kInvalidArgument,
              "no candidate 99");
  ExpectError(archive.AddStage({a, "x", false, "[]", 0}), ErrorCode::kInvalidArgument, "detail");
}

TEST_F(ArchiveTest, RejectsInvalidRecords) {
  Archive archive = Create();
  const int64_t a = archive.AddCandidate(Source("a"))->id;
  ExpectError(archive.AddCandidate(Source("b", {99})), ErrorCode::kInvalidArgument,
              "no candidate 99");
  EXPECT_EQ(archive.Count()->total(), 1);
  ExpectError(archive.RecordVerdict(99, Rejected()), ErrorCode::kInvalidArgument,
              "no candidate 99");
  ExpectError(archive.RecordVerdict(a, Accepted(std::nan(""))), ErrorCode::kInvalidArgument,
              "finite");
  ExpectError(archive.PutState("{nope"), ErrorCode::kInvalidArgument, "state");
  ExpectError(archive.AddCandidate(Source(std::string(kMaxBlobBytes + 1, 'x'))),
              ErrorCode::kInvalidArgument, "too large");
  NewVerdict odd = Rejected();
  odd.decision = "fine";
  ExpectError(archive.RecordVerdict(a, odd), ErrorCode::kInvalidArgument, "decision");
  NewRun bad = Run1();
  bad.id = "../x";
  ExpectError(Archive::Create(folder_.path() / "x.cupel", bad), ErrorCode::kInvalidArgument,
              "valid name of a run");
}

TEST_F(ArchiveTest, ReportsWhatIsWrongWithAFile) {
  ExpectError(Archive::Open(file_), ErrorCode::kNotFound, "check the run's name");
  std::ofstream(file_)
      << "PK this is no database at all, but it is long enough to look like something";
  ExpectError(Archive::Open(file_), ErrorCode::kInvalidArgument, "not a cupel archive");
  fs::resize_file(file_, 0);
  ExpectError(Archive::Open(file_), ErrorCode::kInvalidArgument, "not a cupel archive");
  ExpectError(Archive::Create(file_, Run1()), ErrorCode::kInvalidArgument, "already exists");
  ExpectError(Archive::Open(folder_.path()), ErrorCode::kInvalidArgument, "regular");
}

TEST_F(ArchiveTest, RejectsNewerFormats) {
  {
    Create();
  }
  auto raw = Database::Open(file_, false);
  ASSERT_TRUE(raw->Execute("PRAGMA user_version = 99"));
  ExpectError(Archive::Open(file_), ErrorCode::kUnsupported, "use the newer cupel");
}

TEST_F(ArchiveTest, DetectsDamage) {
  {
    Archive archive = Create();
    for (int i = 0; i < 50; ++i)
      ASSERT_TRUE(archive.AddCandidate(
          Source(std::string(3000, static_cast<char>('a' + i % 26)) + std::to_string(i))));
    EXPECT_TRUE(archive.Verify());
  }
  std::fstream(file_, std::ios::in | std::ios::out)
      .seekp(8192)
      .write(std::string(40960, '\x5a').data(), 40960);
  const auto archive = Archive::Open(file_);
  if (!archive) {
    EXPECT_THAT(archive.error().message, HasSubstr("damaged"));
  } else {
    ExpectError(archive->Verify(), ErrorCode::kIo, "damaged");
  }
}

TEST_F(ArchiveTest, HasOneOwnerAndManyReaders) {
  Archive owner = Create();
  ASSERT_TRUE(owner.AddCandidate(Source("a")));
  ExpectError(Archive::Open(file_), ErrorCode::kIo, "another cupel is working on this run");
  auto reader = Archive::Open(file_, Access::kReadOnly);
  ASSERT_TRUE(reader) << reader.error().ToString();
  EXPECT_EQ(reader->Count()->queued, 1);
  EXPECT_FALSE(reader->SetStatus(RunStatus::kStopped));
  ASSERT_TRUE(owner.AddCandidate(Source("b")));
  EXPECT_EQ(reader->Count()->queued, 2);
}

TEST_F(ArchiveTest, RunWithoutItsProcessIsStopped) {
  std::optional<Archive> owner = Create();
  const auto reader = Archive::Open(file_, Access::kReadOnly);
  ASSERT_TRUE(reader) << reader.error().ToString();
  EXPECT_EQ(owner->Run()->status, RunStatus::kRunning);
  EXPECT_EQ(reader->Run()->status, RunStatus::kRunning);
  ExpectError(Archive::Open(file_), ErrorCode::kIo, "another cupel is working on this run");
  owner.reset();
  EXPECT_EQ(reader->Run()->status, RunStatus::kStopped);
  ASSERT_TRUE(Archive::Open(file_));
}

TEST_F(ArchiveTest, ListsRunsAndNamesBrokenOnes) {
  {
    Create();
  }
  std::ofstream(folder_.path() / "broken.cupel") << "x";
  std::ofstream(folder_.path() / "other.txt") << "x";
  const auto runs = *ListRuns(folder_.path());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].run.id, "run-1");
  EXPECT_THAT(runs[1].problem, HasSubstr("not a cupel archive"));
  EXPECT_TRUE(ListRuns(folder_.path() / "absent")->empty());
}

TEST_F(ArchiveTest, ReportsFullDiskAndLosesNothing) {
  {
    Create();
  }
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto archive = Archive::Open(file_);
    const rlimit limit{400'000, 400'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 1000; ++i) {
      const auto added =
          archive->AddCandidate(Source(std::string(20'000, 'x') + std::to_string(i)));
      if (added) continue;
      const bool reported = added.error().ToString().find("disk is full") != std::string::npos &&
                            added.error().ToString().find("resume") != std::string::npos;
      if (!reported) fprintf(stderr, "%s\n", added.error().ToString().c_str());
      _exit(reported && i > 3 ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  auto archive = Archive::Open(file_);
  ASSERT_TRUE(archive) << archive.error().ToString();
  EXPECT_TRUE(archive->Verify());
  EXPECT_GT(archive->Count()->queued, 3);
}

/// Writes until it is killed: creates the file, adds candidates, claims them, records verdicts.
[[noreturn]] void WriteUntilKilled(const fs::path& file, const NewRun& run,
                                   const NewVerdict& verdict) {
  auto archive = fs::exists(file) ? Archive::Open(file) : Archive::Create(file, run);
  if (!archive || !archive->RequeueInterrupted()) _exit(3);
  for (int64_t i = archive->Count()->total();; ++i) {
    NewCandidate candidate;
    candidate.source = std::string(5000, 'k') + std::to_string(i);
    const auto added = archive->AddCandidate(candidate);
    const auto claimed = ClaimNext(*archive);
    if (!added || !claimed || !*claimed) _exit(4);
    const int64_t id = (*claimed)->id;
    if (!archive->RecordVerdict(id, verdict, {id, "judge", true, "{}", 0})) _exit(5);
  }
}

TEST_F(ArchiveTest, SurvivesAKillAtAnyInstant) {
  Random random(EntropySeed());
  int64_t done = 0;
  uint64_t longest_us = 30'000;  // doubled while the child does nothing on a busy machine
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  for (int round = 0; round < 40; ++round) {
    if (done > 0 && std::chrono::steady_clock::now() > enough) break;
    const pid_t child = fork();
    if (child == 0) WriteUntilKilled(file_, Run1(), Accepted(1));
    usleep(static_cast<useconds_t>(random.Below(longest_us)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself: " << WEXITSTATUS(status);
    if (!fs::exists(file_)) {  // killed before the archive was created
      longest_us = std::min<uint64_t>(2 * longest_us, 2'000'000);
      continue;
    }
    auto archive = Archive::Open(file_);
    ASSERT_TRUE(archive) << archive.error().ToString();
    ASSERT_TRUE(archive->Verify());
    const Counts counts = *archive->Count();
    EXPECT_GE(counts.done, done) << "recorded verdicts were lost";
    longest_us = counts.done == done ? std::min<uint64_t>(2 * longest_us, 2'000'000)
                                     : std::max<uint64_t>(longest_us / 2, 30'000);
    done = counts.done;
    EXPECT_EQ(archive->Stages()->size(), static_cast<size_t>(done));
  }
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace cupel::archive
