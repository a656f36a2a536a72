// SPDX-License-Identifier: Apache-2.0
#include "archive/suite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "os/temp_dir.h"

namespace cupel::archive {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SuiteStoreTest : public testing::Test {
 protected:
  SuiteStoreTest() : folder_(*os::TempDir::Create()), file_(folder_.path() / kSuiteFile) {}

  static NewSuite Suite() { return {R"({"settings": "single"})", "0.1.0", ~uint64_t{0}}; }
  static SuiteItem Item(const std::string& id, const std::string& source = "s",
                        const std::string& task = "t") {
    return {id, "linear", "forward", id + ".cu", "/tasks/linear", "/k/" + id + ".cu", task, source};
  }
  static SuiteOutcome Done(const std::string& decision) {
    SuiteOutcome outcome;
    outcome.decision = decision;
    outcome.verdict = R"({"verdict": ")" + decision + R"("})";
    outcome.worker = "local 0";
    outcome.seconds = 1.5;
    return outcome;
  }
  SuiteStore Make() {
    auto store = SuiteStore::Create(file_, Suite());
    EXPECT_TRUE(store) << store.error().ToString();
    return std::move(*store);
  }
  static std::vector<std::string> Ids(const Result<std::vector<SuiteItem>>& items) {
    std::vector<std::string> ids;
    for (const SuiteItem& item : *items) ids.push_back(item.id);
    return ids;
  }

  os::TempDir folder_;
  std::filesystem::path file_;
};

TEST_F(SuiteStoreTest, KeepsWhatAResumeNeeds) {
  {
    SuiteStore store = Make();
    ASSERT_TRUE(store.SetItems(std::vector{Item("b"), Item("a")}, R"({"without_kernel": []})"));
    ASSERT_TRUE(store.Record("b", Done("accepted")));
    ASSERT_TRUE(store.AddEvent("resumed"));
    ASSERT_TRUE(store.SetStatus(RunStatus::kStopped));
  }
  auto store = SuiteStore::Open(file_, Access::kOwner);
  ASSERT_TRUE(store) << store.error().ToString();
  const auto info = store->Info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->seed, ~uint64_t{0});
  EXPECT_EQ(info->config, Suite().config);
  EXPECT_EQ(info->listing, R"({"without_kernel": []})");
  EXPECT_EQ(info->status, RunStatus::kStopped);
  EXPECT_THAT(Ids(store->Items()), ElementsAre("b", "a"));
  EXPECT_THAT(Ids(store->Pending()), ElementsAre("a"));
  const auto outcome = store->OutcomeOf("b");
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_EQ((*outcome)->worker, "local 0");
  EXPECT_EQ((*outcome)->seconds, 1.5);
  EXPECT_EQ((*outcome)->bench, "");
  EXPECT_EQ(store->Events()->size(), 1);
}

TEST_F(SuiteStoreTest, OnlyChangedKernelsAndTasksAreJudgedAgain) {
  SuiteStore store = Make();
  ASSERT_TRUE(store.SetItems(std::vector{Item("a"), Item("b"), Item("c"), Item("d")}, "{}"));
  for (const char* id : {"a", "b", "c", "d"}) ASSERT_TRUE(store.Record(id, Done("accepted")));
  const auto relisted =
      store.SetItems(std::vector{Item("a"), Item("b", "other"), Item("c", "s", "other")}, "{}");
  ASSERT_TRUE(relisted);
  EXPECT_THAT(relisted->changed_kernels, ElementsAre("b"));
  EXPECT_THAT(relisted->changed_tasks, ElementsAre("c"));
  EXPECT_THAT(relisted->removed, ElementsAre("d"));
  EXPECT_THAT(Ids(store.Pending()), ElementsAre("b", "c"));
  EXPECT_EQ(store.Count()->done, 1);
}

TEST_F(SuiteStoreTest, RetriesOwnFailuresAndCountsThemOnce) {
  SuiteStore store = Make();
  ASSERT_TRUE(store.SetItems(std::vector{Item("a")}, "{}"));
  SuiteOutcome failed;
  failed.decision = "error";
  failed.error = "the disk is full";
  ASSERT_TRUE(store.Record("a", failed));
  EXPECT_EQ(store.Count()->error, 1);
  EXPECT_THAT(Ids(store.Pending()), ElementsAre("a"));
  ASSERT_TRUE(store.Record("a", Done("rejected")));
  EXPECT_THAT(Ids(store.Pending()), IsEmpty());
  EXPECT_EQ(store.Count()->done, 1);
  EXPECT_EQ(store.Count()->rejected, 1);
  EXPECT_EQ(store.Count()->error, 0);
  // A verdict "error", from a task that cannot judge, is retried too.
  ASSERT_TRUE(store.Record("a", Done("error")));
  EXPECT_THAT(Ids(store.Pending()), ElementsAre("a"));
}

TEST_F(SuiteStoreTest, KeepsVerdictAndTimesUnlessSomethingChanges) {
  SuiteStore store = Make();
  ASSERT_TRUE(store.SetItems(std::vector{Item("a"), Item("b"), Item("c")}, "{}"));
  EXPECT_FALSE(store.RecordVerdict("unknown", {"{}", "gpu", "worker", 2}));
  EXPECT_FALSE(store.RecordVerdict("a", {"{", "gpu", "worker", 2}));
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_TRUE(store.RecordVerdict(id, {"{}", "cpu", "worker", 1}));
    ASSERT_TRUE(store.RecordVerdict(id, {R"({"verdict": "accepted"})", "gpu", "coordinator", 2}));
  }
  EXPECT_THAT(Ids(store.Pending()), ElementsAre("a", "b", "c"));
  EXPECT_EQ(store.Count()->done, 0);
  for (const char* setting : {"multi-1", "multi-0"}) {
    ASSERT_TRUE(store.RecordTimed("a", {setting, R"({"gpu": "1"})", 3}));
    ASSERT_TRUE(store.RecordTimed("c", {setting, "{}", 3}));
  }
  EXPECT_FALSE(store.RecordTimed("unknown", {"multi-0", "{}", 3}));
  EXPECT_FALSE(store.RecordTimed("a", {"multi-0", "{", 3}));
  SuiteOutcome failed;
  failed.decision = "error";
  ASSERT_TRUE(store.Record("a", failed));
  const auto kept = store.VerdictOf("a");
  ASSERT_TRUE(kept && *kept);
  EXPECT_EQ((*kept)->verdict, R"({"verdict": "accepted"})");
  EXPECT_EQ((*kept)->device, "gpu");
  EXPECT_EQ((*kept)->cases, "coordinator");
  EXPECT_EQ((*kept)->seconds, 2);
  ASSERT_EQ((*kept)->timed.size(), 2u);
  EXPECT_EQ((*kept)->timed[0].setting, "multi-1");
  EXPECT_EQ((*kept)->timed[0].bench, R"({"gpu": "1"})");
  EXPECT_EQ((*kept)->timed[0].seconds, 3);
  // A new verdict drops the times of the old one.
  ASSERT_TRUE(store.RecordVerdict("c", {"{}", "gpu", "worker", 2}));
  EXPECT_TRUE((*store.VerdictOf("c"))->timed.empty());
  ASSERT_TRUE(store.DropVerdict("b"));
  EXPECT_EQ(*store.VerdictOf("b"), std::nullopt);
  ASSERT_TRUE(store.RecordVerdict("b", {"{}", "gpu", "worker", 2}));
  ASSERT_TRUE(store.Record("a", Done("accepted")));
  EXPECT_EQ(*store.VerdictOf("a"), std::nullopt);
  ASSERT_TRUE(store.SetItems(std::vector{Item("a"), Item("b", "other"), Item("c")}, "{}"));
  EXPECT_EQ(*store.VerdictOf("b"), std::nullopt);
  EXPECT_NE(*store.VerdictOf("c"), std::nullopt);
  ASSERT_TRUE(store.SetItems(std::vector{Item("a"), Item("b", "other")}, "{}"));
  ASSERT_TRUE(store.SetItems(std::vector{Item("c")}, "{}"));
  EXPECT_EQ(*store.VerdictOf("c"), std::nullopt);
}

TEST_F(SuiteStoreTest, RejectsInvalidOutcomes) {
  SuiteStore store = Make();
  ASSERT_TRUE(store.SetItems(std::vector{Item("a")}, "{}"));
  EXPECT_FALSE(store.Record("unknown", Done("accepted")));
  SuiteOutcome broken = Done("accepted");
  broken.verdict = "{";
  EXPECT_FALSE(store.Record("a", broken));
  EXPECT_FALSE(store.Record("a", Done("perhaps")));
  EXPECT_EQ(store.Count()->done, 0);
}

TEST_F(SuiteStoreTest, RejectsArchiveAsStoreAndStoreAsArchive) {
  {
    SuiteStore store = Make();
  }
  const auto as_archive = Archive::Open(file_);
  ASSERT_FALSE(as_archive);
  EXPECT_THAT(as_archive.error().message, HasSubstr("not a cupel archive"));
  NewRun run;
  run.id = "r";
  run.task = "t";
  run.direction = "forward";
  ASSERT_TRUE(Archive::Create(folder_.path() / "r.cupel", run));
  const auto as_store = SuiteStore::Open(folder_.path() / "r.cupel", Access::kOwner);
  ASSERT_FALSE(as_store);
  EXPECT_THAT(as_store.error().message, HasSubstr("not the store of a suite run"));
}

TEST_F(SuiteStoreTest, AllowsOneOwnerAndManyReaders) {
  SuiteStore store = Make();
  ASSERT_TRUE(store.SetItems(std::vector{Item("a")}, "{}"));
  const auto second = SuiteStore::Open(file_, Access::kOwner);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another cupel"));
  const auto reader = SuiteStore::Open(file_, Access::kReadOnly);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(store.Record("a", Done("accepted")));
  EXPECT_EQ(reader->Count()->accepted, 1);
}

TEST_F(SuiteStoreTest, RunWithoutItsProcessIsStopped) {
  std::optional<SuiteStore> store = Make();
  const auto reader = SuiteStore::Open(file_, Access::kReadOnly);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->Info()->status, RunStatus::kRunning);
  store.reset();
  EXPECT_EQ(reader->Info()->status, RunStatus::kStopped);
}

TEST_F(SuiteStoreTest, KilledWriterLosesNoRecordedOutcome) {
  constexpr int kItems = 200;
  std::vector<SuiteItem> items;
  items.reserve(kItems);
  for (int i = 0; i < kItems; ++i) items.push_back(Item(std::to_string(i)));
  {
    ASSERT_TRUE(Make().SetItems(items, "{}"));
  }
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = SuiteStore::Open(file_, Access::kOwner);
    for (int i = 0; store && i < kItems; ++i) {
      const bool recorded = store->Record(std::to_string(i), Done("accepted")).has_value();
      if (!recorded || write(pipes[1], "x", 1) != 1) _exit(1);
    }
    pause();
    _exit(0);
  }
  char byte;
  for (int reported = 0; reported < 20; ++reported) ASSERT_EQ(read(pipes[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipes[1]);
  int reported = 20;
  while (read(pipes[0], &byte, 1) == 1) ++reported;
  close(pipes[0]);
  const auto store = SuiteStore::Open(file_, Access::kOwner);
  ASSERT_TRUE(store) << store.error().ToString();
  const int64_t done = store->Count()->done;
  EXPECT_GE(done, reported);
  EXPECT_LE(done, reported + 1);
  EXPECT_EQ(static_cast<int64_t>(store->Pending()->size()), kItems - done);
}

}  // namespace
}  // namespace cupel::archive
