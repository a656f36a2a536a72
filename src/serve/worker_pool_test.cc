// WorkerPool with workers that run this test program; fake_worker.h defines what they do.
// SPDX-License-Identifier: Apache-2.0
#include "serve/worker_pool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/hash.h"
#include "build/sources.h"
#include "os/files.h"
#include "os/temp_dir.h"
#include "task/case_file.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::_;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Pair;

class WorkerPoolTest : public ::testing::Test, private Events {
 protected:
  WorkerPoolTest() : folder_(*os::TempDir::Create()) {
    ::setenv("CUPEL_HOME", CUPEL_SOURCE_DIR, 1);
    ::setenv("CUPEL_TEST_STORE", (folder_.path() / "store").c_str(), 1);
    options_.tasks_root = fs::path(CUPEL_SOURCE_DIR) / "tasks";
    options_.workers = 2;
    options_.first_pause = milliseconds(10);
    options_.stop_timeout = milliseconds(500);
    options_.events = this;
  }

  void Note(std::string_view line) override { notes_.emplace_back(line); }

  void Add(const std::string& text) {
    Item item;
    item.id = fmt::format("item {}", items_.size());
    item.kernel = folder_.path() / fmt::format("kernel{}.cu", items_.size());
    item.task = "mnist_linear";
    std::ofstream(item.kernel) << text;
    items_.push_back(std::move(item));
  }

  Status Run() {
    TRY_ASSIGN(pool_, WorkerPool::Start(options_));
    Listener listener;
    listener.done = [this](Outcome outcome) {
      EXPECT_EQ(outcomes_.count(outcome.item), 0u) << "reported twice: " << outcome.item;
      outcomes_[outcome.item] = std::move(outcome);
    };
    listener.judged = [this](const std::string& item, const Judgement& judged) {
      judged_.emplace_back(item, judged);
    };
    listener.withdrawn = [this](const std::string& item) { withdrawn_.push_back(item); };
    listener.timed = [this](const std::string& item, const Timed& timed) {
      timed_.emplace_back(item, timed);
    };
    return pool_->Run(items_, listener);
  }
  void MustRun() {
    const Status status = Run();
    ASSERT_TRUE(status) << status.error().ToString();
    ASSERT_EQ(outcomes_.size(), items_.size());
  }
  const Outcome& Of(size_t item) { return outcomes_[items_[item].id]; }
  /// The settings of the item's bench, in its order, with the pid of the worker that timed each.
  std::vector<std::pair<std::string, int64_t>> TimesOf(size_t item) {
    std::vector<std::pair<std::string, int64_t>> times;
    for (const Json& setting : Of(item).bench["settings"]) {
      times.emplace_back(setting["id"], setting["pid"].get<int64_t>());
    }
    return times;
  }
  std::string Manner(const std::string& manner) const {
    return fs::read_symlink("/proc/self/exe").string() + " worker " + manner;
  }

  os::TempDir folder_;
  WorkerPoolOptions options_;
  std::vector<Item> items_;
  std::vector<std::string> notes_;
  std::map<std::string, Outcome> outcomes_;
  std::vector<std::pair<std::string, Judgement>> judged_;
  std::vector<std::pair<std::string, Timed>> timed_;
  std::vector<std::string> withdrawn_;
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolTest, SeveralWorkersDoEveryItemOnce) {
  const fs::path meeting = folder_.path() / "meeting";
  fs::create_directory(meeting);
  for (int i = 0; i < 2; ++i) Add("meet " + meeting.string());
  for (int i = 2; i < 20; ++i) Add(fmt::format("kernel {}", i));
  MustRun();
  std::map<int64_t, int> by;
  for (const auto& [id, outcome] : outcomes_) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.verdict["task"], "mnist_linear");
    ++by[outcome.verdict["pid"].get<int64_t>()];
  }
  EXPECT_EQ(by.size(), 2u);
  EXPECT_EQ(Of(3).verdict["kernel"], items_[3].kernel.string());
}

TEST_F(WorkerPoolTest, RetriesItemOfDeadWorkerOnAnother) {
  for (int i = 0; i < 6; ++i) Add("fine");
  Add("die once " + (folder_.path() / "mark").string());
  MustRun();
  EXPECT_EQ(Of(6).error, "");
  EXPECT_TRUE(Of(6).verdict.is_object());
  EXPECT_THAT(notes_, Contains(HasSubstr("killed by SIGABRT; it is restarted")));
  EXPECT_THAT(notes_, Contains(HasSubstr(items_[6].id + " is tried again; local ")));
}

TEST_F(WorkerPoolTest, ItemThatKillsItsWorkersEndsInError) {
  Add("die");
  Add("fine");
  Add("fine");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("3 attempts failed; the last, by local "));
  EXPECT_THAT(Of(0).error, HasSubstr("SIGABRT"));
  EXPECT_NE(Of(0).remedy, "");
  EXPECT_TRUE(Of(0).verdict.is_null());
  EXPECT_EQ(Of(1).error, "");
  EXPECT_EQ(Of(2).error, "");
}

TEST_F(WorkerPoolTest, ReplacesSilentWorker) {
  options_.patience = milliseconds(2'000);  // enough for a worker to start on a busy machine
  Add("stop");
  Add("fine");
  options_.most_attempts = 1;
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("sent nothing for 2 s"));
  EXPECT_EQ(Of(1).error, "");
}

TEST_F(WorkerPoolTest, StopsItemThatTakesTooLong) {
  options_.item_limit = milliseconds(300);
  options_.most_attempts = 1;
  Add("sleep");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("worked on one item for more than 0.3 s"));
}

TEST_F(WorkerPoolTest, RetriesMachineErrorsButNotTaskErrors) {
  Add("broken environment");
  Add("broken task");
  Add("crowded GPU");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("3 attempts failed"));
  EXPECT_THAT(Of(0).error, HasSubstr("no disk; buy one"));
  EXPECT_EQ(Of(1).error, "no such model");
  EXPECT_EQ(Of(1).remedy, "write it");
  EXPECT_THAT(Of(2).error, HasSubstr("3 attempts failed"));
}

TEST_F(WorkerPoolTest, RejectsVerdictOfAnotherKernel) {
  Add("lie");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("the verdict of another kernel or task"));
}

TEST_F(WorkerPoolTest, UnreadableKernelOrTaskIsAnErrorOutcome) {
  Add("fine");
  items_[0].kernel = folder_.path() / "absent.cu";
  Add("fine");
  items_[1].task = "no_such_task";
  Add("fine");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("absent.cu"));
  EXPECT_THAT(Of(1).error, HasSubstr("there is no task \"no_such_task\""));
  EXPECT_EQ(Of(2).error, "");
}

TEST_F(WorkerPoolTest, WorkersGetProgramsAndAllFilesOfAFolder) {
  fs::create_directory(folder_.path() / "op");
  std::ofstream(folder_.path() / "op" / "k.cu") << "#include \"k.h\"\n";
  std::ofstream(folder_.path() / "op" / "k.h") << "int k;\n";
  const auto bundle = build::TextOf(folder_.path() / "op");
  ASSERT_TRUE(bundle) << bundle.error().ToString();
  EXPECT_THAT(*bundle, HasSubstr("int k;"));
  Add("fine");
  items_[0].kernel = folder_.path() / "op";
  items_[0].source_sha256 = Sha256Hex(*bundle);
  Add("fine");
  items_[1].kernel = folder_.path() / "program.py";
  std::ofstream(items_[1].kernel) << "import torch\n";
  Add(*bundle);  // the text of a .cu file is never a bundle
  MustRun();
  const char* kNames[] = {"op.cupel-sources", "program.py", "kernel2.cu"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Of(i).error, "");
    EXPECT_THAT(DumpJson(Of(i).verdict), HasSubstr(std::string("the kernel is in ") + kNames[i]));
  }
}

TEST_F(WorkerPoolTest, RejectsKernelThatChangedSinceListing) {
  Add("fine");
  items_[0].source_sha256 = Sha256Hex("other");
  Add("fine");
  items_[1].source_sha256 = Sha256Hex("fine");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("kernel0.cu has changed since the run began"));
  EXPECT_EQ(Of(1).error, "");
}

TEST_F(WorkerPoolTest, RejectsTaskThatChangedSinceListing) {
  Add("fine");
  items_[0].task_sha256 = Sha256Hex("other");
  Add("fine");
  const auto task = task::LoadTask(items_[1].task, options_.tasks_root);
  ASSERT_TRUE(task) << task.error().ToString();
  items_[1].task_sha256 = *task::QuestionHash(*task, task::Direction::kForward);
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("has changed since the run began"));
  EXPECT_THAT(Of(0).error, HasSubstr("the task"));
  EXPECT_EQ(Of(1).error, "");
}

TEST_F(WorkerPoolTest, IgnoresLoginShellOutputBeforeHello) {
  options_.commands = {Manner("motd")};
  Add("fine");
  MustRun();
  EXPECT_EQ(Of(0).error, "");
}

TEST_F(WorkerPoolTest, RemovesControlCharactersFromRemarks) {
  Add("noisy");
  MustRun();
  EXPECT_THAT(notes_, Contains(testing::EndsWith("a remark?[2J")));
}

TEST_F(WorkerPoolTest, RejectsWorkerOfAnotherBuildWithRemedy) {
  options_.commands = {Manner("older")};
  Add("fine");
  const Status status = Run();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("install the same build on both machines"));
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(WorkerPoolTest, WorkersThatNeverStartEndTheRunWithTheirOutput) {
  options_.commands = {Manner("absent")};
  options_.workers = 1;
  Add("fine");
  const Status status = Run();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("exit status 7 before it sent hello"));
  EXPECT_THAT(status.error().message, HasSubstr("module not found"));
  EXPECT_EQ(std::count_if(notes_.begin(), notes_.end(),
                          [](const std::string& note) {
                            return note.find("exit status 7") != std::string::npos;
                          }),
            4);
}

TEST_F(WorkerPoolTest, LimitsOutputBeforeHello) {
  options_.commands = {Manner("endless")};
  options_.workers = 1;
  options_.most_failed_starts = 1;
  Add("fine");
  const Status status = Run();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("did not send hello; it printed: chatter"));
}

TEST_F(WorkerPoolTest, TornOrBrokenLinesLoseTheWorker) {
  for (const char* manner : {"torn", "garbage"}) {
    options_.commands = {Manner(manner), Manner("")};
    options_.workers = 1;
    items_.clear();
    outcomes_.clear();
    for (int i = 0; i < 4; ++i) Add("fine");
    MustRun();
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Of(i).error, "") << manner;
  }
  // Alone, so that it gets work: next to another worker it may start too late.
  options_.commands = {Manner("garbage")};
  items_.clear();
  Add("fine");
  (void)Run();
  EXPECT_THAT(notes_, Contains(HasSubstr("it sent a broken line")));
}

TEST_F(WorkerPoolTest, DropsSecondResultForTheSameWork) {
  for (int i = 0; i < 4; ++i) Add("twice");
  MustRun();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Of(i).error, "");
  EXPECT_THAT(notes_, Contains(HasSubstr("a second result for the same work is dropped")));
}

TEST_F(WorkerPoolTest, TimesAcceptedKernelAtPassedSettingsBeforeJudgingTheNext) {
  options_.workers = 1;
  for (int i = 0; i < 4; ++i) Add("time");
  Add("fine");
  MustRun();
  EXPECT_EQ(judged_.size(), 4u);
  ASSERT_EQ(timed_.size(), 12u);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 3; ++j) EXPECT_EQ(timed_[3 * i + j].first, items_[i].id);
    const Outcome& outcome = Of(i);
    EXPECT_EQ(outcome.error, "");
    const int64_t judge = outcome.verdict["pid"];
    EXPECT_THAT(TimesOf(i), ElementsAre(Pair("a", judge), Pair("c", judge), Pair("d", judge)));
    EXPECT_EQ(outcome.bench["kernels"][0]["name"], items_[i].kernel.filename().string());
    EXPECT_EQ(outcome.bench["kernels"][0]["verdict"], outcome.verdict);
    EXPECT_EQ(outcome.bench["settings"][0]["worker"], outcome.worker);
  }
  EXPECT_TRUE(Of(4).bench.is_null());
}

TEST_F(WorkerPoolTest, SkipsTimingIfNotRequested) {
  Add("time");
  items_[0].timed = false;
  MustRun();
  EXPECT_EQ(Of(0).verdict["verdict"], "accepted");
  EXPECT_TRUE(Of(0).bench.is_null());
  EXPECT_TRUE(judged_.empty());
}

TEST_F(WorkerPoolTest, IdleWorkersHelpTiming) {
  const fs::path meeting = folder_.path() / "meeting";
  fs::create_directory(meeting);
  options_.commands = {Manner("GPU-1"), Manner("GPU-2")};
  options_.workers = 1;
  Add("time, meet " + meeting.string());
  MustRun();
  EXPECT_EQ(Of(0).error, "");
  ASSERT_EQ(TimesOf(0).size(), 3u);
}

TEST_F(WorkerPoolTest, WorkersOfOneGpuDoNotTimeTheSameKernelAtOnce) {
  options_.commands = {Manner("GPU-1")};
  options_.workers = 4;
  for (int i = 0; i < 2; ++i) {
    const fs::path folder = folder_.path() / fmt::format("folder{}", i);
    fs::create_directory(folder);
    Add("time, alone " + folder.string());
  }
  MustRun();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Of(i).error, "");
    EXPECT_EQ(TimesOf(i).size(), 3u);
  }
}

TEST_F(WorkerPoolTest, DeadWorkerLosesOneSetting) {
  Add("time, die once " + (folder_.path() / "mark").string());
  Add("time");
  MustRun();
  EXPECT_EQ(Of(0).error, "");
  EXPECT_THAT(notes_, Contains(HasSubstr("SIGABRT")));
  EXPECT_THAT(notes_, Contains(ContainsRegex("timing item 0 at [abc] is tried again; local ")));
  ASSERT_EQ(judged_.size(), 2u);  // neither of them twice
  for (const auto& [item, judged] : judged_) {
    EXPECT_EQ(judged.verdict, outcomes_[item].verdict);
    EXPECT_EQ(judged.device, "fake");
    EXPECT_GT(judged.seconds, 0);
    EXPECT_GT(outcomes_[item].seconds, judged.seconds);
  }
  EXPECT_EQ(TimesOf(0).size(), 3u);
  EXPECT_EQ(timed_.size(), 6u);
}

TEST_F(WorkerPoolTest, ReusesEarlierVerdictOfSameKernelAndDevice) {
  for (int i = 0; i < 5; ++i) Add("time");
  MustRun();
  ASSERT_EQ(judged_.size(), 5u);
  const auto before = std::exchange(outcomes_, {});
  judged_.clear();
  timed_.clear();
  const auto judgement = [&](size_t item, const std::string& device) {
    Judgement judged;
    judged.verdict = before.at(items_[item].id).verdict;
    judged.device = device;
    judged.cases = "worker";
    judged.seconds = 1000;
    return judged;
  };
  const auto times = [](const std::string& id) {
    return Timed{id, {{"settings", Json::array({{{"id", id}, {"pid", 1}}})}}, 500};
  };
  items_[0].judged = judgement(0, "fake");
  items_[0].judged.timed = {times("d"), times("a")};
  items_[1].judged = items_[0].judged;  // another kernel's
  items_[2].judged = judgement(2, "another GPU");
  items_[3].judged = judgement(3, "fake");
  items_[3].judged.timed = {times("a"), times("c"), times("d")};
  MustRun();
  EXPECT_EQ(Of(0).verdict, before.at(items_[0].id).verdict);
  EXPECT_THAT(TimesOf(0), ElementsAre(Pair("a", 1), Pair("c", Gt(1)), Pair("d", 1)));
  EXPECT_THAT(TimesOf(3), ElementsAre(Pair("a", 1), Pair("c", 1), Pair("d", 1)));
  EXPECT_GT(Of(0).seconds, 2000);
  EXPECT_LT(Of(0).seconds, 2500);
  EXPECT_EQ(Of(3).seconds, 2500);
  EXPECT_EQ(Of(0).cases, "worker");
  for (const size_t i : {1, 2, 4}) {
    EXPECT_THAT(TimesOf(i), Each(Pair(_, Gt(1))));
    EXPECT_LT(Of(i).seconds, 500);
    EXPECT_EQ(Of(i).cases, "coordinator");
  }
  EXPECT_EQ(judged_.size(), 3u);
  EXPECT_EQ(timed_.size(), 1u + 3 * 3);
}

TEST_F(WorkerPoolTest, JudgesAgainIfNoMachineConfirmsTheVerdict) {
  Add("time what I judged");
  MustRun();
  const Json before = Of(0).verdict;
  outcomes_.clear();
  judged_.clear();
  items_[0].judged.verdict = before;
  items_[0].judged.device = "fake";
  MustRun();
  EXPECT_NE(Of(0).verdict, before);
  EXPECT_THAT(TimesOf(0), Each(Pair(_, Of(0).verdict["pid"].get<int64_t>())));
  EXPECT_EQ(judged_.size(), 1u);
  EXPECT_THAT(notes_, Contains("item 0 is judged again: its verdict is not valid on this machine"));
  EXPECT_THAT(withdrawn_, ElementsAre("item 0"));

  items_ = {};
  outcomes_.clear();
  Add("time nothing");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("3 attempts failed"));
  EXPECT_THAT(Of(0).error, HasSubstr("its verdict is not valid on any remaining machine"));
}

TEST_F(WorkerPoolTest, EarlierVerdictWaitsForItsDevice) {
  options_.commands = {Manner("other"), Manner("")};
  options_.workers = 1;
  for (int i = 0; i < 4; ++i) Add("time");
  MustRun();
  const auto before = std::exchange(outcomes_, {});
  judged_.clear();
  for (Item& item : items_) {
    item.judged.verdict = before.at(item.id).verdict;
    item.judged.device = "fake";
  }
  MustRun();
  EXPECT_TRUE(judged_.empty());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Of(i).verdict, before.at(items_[i].id).verdict);
    EXPECT_EQ(TimesOf(i).size(), 3u);
  }
}

TEST_F(WorkerPoolTest, JudgesAgainIfTheVerdictsDeviceIsMissing) {
  options_.commands = {Manner("other")};
  options_.workers = 1;
  Add("time");
  MustRun();
  items_[0].judged.verdict = Of(0).verdict;
  items_[0].judged.device = "fake";
  outcomes_.clear();
  judged_.clear();
  MustRun();
  EXPECT_EQ(judged_.size(), 1u);
  EXPECT_EQ(judged_[0].second.device, "another");
  EXPECT_EQ(TimesOf(0).size(), 3u);
  EXPECT_THAT(withdrawn_, ElementsAre("item 0"));
}

TEST_F(WorkerPoolTest, RejectsTimesOfAnotherSetting) {
  Add("time another setting");
  MustRun();
  EXPECT_THAT(Of(0).error, HasSubstr("it sent the times of another setting"));
  EXPECT_TRUE(timed_.empty());
}

TEST_F(WorkerPoolTest, RejectsVerdictOfAnotherKernelBeforeTiming) {
  Add("time a lie");
  MustRun();
  EXPECT_TRUE(judged_.empty());
  EXPECT_THAT(Of(0).error, HasSubstr("the verdict of another kernel or task"));
}

/// The smallest possible cases: a call with None that returns nothing.
class SmallCases final : public oracle::Oracle {
 public:
  explicit SmallCases(fs::path folder) : folder_(std::move(folder)) {}

  class Some final : public Stream {
   public:
    Some(SmallCases& oracle, int count) : oracle_(oracle), count_(count) {}
    Result<std::optional<oracle::CaseOutcome>> Next() override {
      using Found = std::optional<oracle::CaseOutcome>;
      if (count_-- == 0) return Found();
      if (count_ > 50) return Found(oracle::SettingFailure{"too many", false});
      const Json call{{"version", 1},
                      {"task", "t"},
                      {"direction", "forward"},
                      {"seed", fmt::format("{}", count_)},
                      {"torch", "1"},
                      {"returns_tuple", true},
                      {"args", Json::array({{{"kind", "none"}}})},
                      {"outputs", Json::array({{{"name", "output"}, {"none", true}}})}};
      // Larger than one chunk, so that it is sent in parts.
      std::string header = DumpJson({{"__metadata__", {{"cupel.case", DumpJson(call)}}}});
      header.resize((header.size() + (2u << 20) + 63) / 64 * 64 - 8, ' ');
      std::string bytes(8, '\0');
      for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i);
      bytes += header;
      const fs::path path = oracle_.folder_ / "case";
      TRY(os::WriteFileAtomically(path, bytes));
      TRY_ASSIGN(os::MappedFile file, os::MappedFile::Open(path));
      TRY_ASSIGN(task::Case made, task::ReadCase(std::move(file), "case"));
      made.content_hash = Sha256Hex(bytes);
      return Found(std::move(made));
    }

   private:
    SmallCases& oracle_;
    int count_;
  };

  Result<std::unique_ptr<Stream>> Open(const task::Task& task, task::Direction,
                                       const task::Setting& setting, int count,
                                       std::optional<uint64_t> seed, bool,
                                       oracle::Distribution) override {
    EXPECT_EQ(task.name, "mnist_linear");
    EXPECT_EQ(setting.id, "single-0");
    EXPECT_EQ(setting.inputs, task.settings[0].front().inputs);
    EXPECT_EQ(seed, 99u);
    return std::unique_ptr<Stream>(std::make_unique<Some>(*this, count));
  }
  Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task&, task::Direction,
                                            const task::Setting&, const std::vector<uint64_t>&,
                                            oracle::Distribution) override {
    return Fail(ErrorCode::kInternal, "not used in these tests");
  }
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(WorkerPoolTest, WorkersWithoutPyTorchGetTheirCasesFromTheCoordinator) {
  options_.make_oracle = [this]() -> Result<std::unique_ptr<oracle::Oracle>> {
    return std::make_unique<SmallCases>(folder_.path());
  };
  for (int i = 0; i < 4; ++i) Add("cases 3");
  Add("cases 60");
  for (Item& item : items_) item.seed = 99;
  MustRun();
  ASSERT_EQ(Of(0).error, "");
  ASSERT_EQ(Of(0).verdict["cases"].size(), 3u);
  EXPECT_EQ(Of(0).cases, "coordinator");
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(Of(i).verdict["cases"], Of(0).verdict["cases"]);
  EXPECT_EQ(Of(4).verdict["cases"], Json::array({"too many"}));
  // Each case is stored once per node, although several workers asked for it.
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "store")) {
    files += entry.path().extension() != ".lock" ? 1 : 0;
  }
  EXPECT_EQ(files, 3u);
}

TEST_F(WorkerPoolTest, CoordinatorWithoutPyTorchReportsIt) {
  options_.make_oracle = []() -> Result<std::unique_ptr<oracle::Oracle>> {
    return Fail(ErrorCode::kNotFound, "no PyTorch", "install it");
  };
  Add("cases 1");
  MustRun();
  EXPECT_EQ(Of(0).error, "no PyTorch");
  EXPECT_EQ(Of(0).remedy, "install it");
}

TEST_F(WorkerPoolTest, StartRejectsMissingCommand) {
  options_.commands = {"no-such-launcher -n1 cupel worker"};
  const auto pool = WorkerPool::Start(options_);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().message, "there is no program \"no-such-launcher\" to start workers with");
}

}  // namespace
}  // namespace cupel::serve
