// A worker for tests: the real protocol code, with a judge that does what the kernel's text says,
// and ways to break the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/hash.h"
#include "os/files.h"
#include "os/folders.h"
#include "records/json.h"
#include "serve/identity.h"
#include "serve/remote_oracle.h"
#include "serve/worker.h"
#include "task/task.h"

namespace cupel::serve {

/// A kernel's text is an instruction: "", "die", "die once PATH", "stop", "sleep", "lie",
/// "broken environment", "broken task", "cases N", "noisy", "twice", "meet FOLDER". Kernels of
/// which three of five settings are timed: "time", "time a lie", "time another setting", "time, die
/// once PATH", "time, meet FOLDER", "time, alone FOLDER", "time what I judged", "time nothing".
class FakeJudge final : public Judge {
 public:
  FakeJudge(WireEnd& wire, const std::filesystem::path& store, std::string gpu)
      : wire_(wire), oracle_(wire, CaseStore(store)), gpu_(std::move(gpu)) {}
  Ready Describe() const override {
    return {gpu_ == "other" ? "another" : "fake", true, "", "coordinator", gpu_};
  }

  Result<Done> Do(const Assignment& work, const Unpacked& files) override {
    TRY_ASSIGN(const std::string text, os::ReadFile(files.kernel, 4096));
    const auto is = [&](std::string_view word) { return text.starts_with(word); };
    if (is("die once ")) {
      DieOnce(text.substr(9));
    } else if (is("die")) {
      std::abort();
    }
    if (is("meet ")) TRY(Meet(text.substr(5)));
    if (is("stop")) std::raise(SIGSTOP);
    if (is("sleep")) std::this_thread::sleep_for(std::chrono::hours(1));
    if (is("noisy")) std::fprintf(stderr, "a remark\x1b[2J\r\n");
    if (is("broken environment")) return Fail(ErrorCode::kEnvironment, "no disk", "buy one");
    if (is("crowded GPU")) return Fail(ErrorCode::kBusy, "no memory", "wait");
    if (is("broken task")) return Fail(ErrorCode::kInvalidArgument, "no such model", "write it");
    TRY_ASSIGN(const task::Task task, task::LoadTask(files.task.string(), {}));
    if (!work.setting.empty()) return Time(work, text);
    Done done;
    records::Verdict verdict;
    verdict.task = task.name;
    verdict.direction = work.item.backward ? task::Direction::kBackward : task::Direction::kForward;
    verdict.kernel_path = work.item.kernel.string();
    verdict.source_hash = Sha256Hex(text.ends_with("lie") ? "another" : text);
    verdict.task_hash = task.content_hash[work.item.backward ? 1 : 0];
    verdict.provenance.asked.trials = 1;
    verdict.notes = {"the kernel is in " + files.kernel.filename().string()};
    if (is("time")) {
      verdict.decision = records::Decision::kAccepted;
      const auto add = [&](const char* id, records::SettingStatus status, const char* derived) {
        records::SettingReport& setting = verdict.settings.emplace_back();
        setting.id = id;
        setting.status = status;
        setting.derived = derived;
      };
      add("a", records::SettingStatus::kPassed, "");
      add("b", records::SettingStatus::kNotDeclared, "");
      add("c", records::SettingStatus::kPassed, "");
      add("odd", records::SettingStatus::kPassed, "a");
      add("d", records::SettingStatus::kPassed, "");
    }
    done.verdict = records::ToJson(verdict);
    done.verdict["pid"] = getpid();
    if (is("twice")) {
      Done early = done;
      early.ticket = work.ticket;
      TRY(wire_.Send(early));
    }
    if (is("cases ")) {
      oracle_.Serve(work.ticket);
      TRY_ASSIGN(const auto cases,
                 oracle_.Cases(task, task::Direction::kForward, task.settings[0].front(),
                               std::stoi(text.substr(6)), work.item.seed));
      done.verdict["cases"] = Json::array();
      for (const auto& one : cases) {
        const auto* found = std::get_if<task::Case>(&one);
        done.verdict["cases"].push_back(
            found != nullptr ? found->content_hash : std::get<oracle::SettingFailure>(one).message);
      }
    }
    return done;
  }

 private:
  static void DieOnce(const std::filesystem::path& mark) {
    if (std::filesystem::exists(mark)) return;
    std::ofstream(mark) << "died";
    std::abort();
  }

  static Result<Done> Time(const Assignment& work, const std::string& text) {
    const auto follow = [&](std::string_view words, const auto& act) {
      if (text.starts_with(words)) return act(text.substr(words.size()));
      return Status();
    };
    Done done;
    const auto judge = JsonInt(work.item.judged.verdict, "pid", "verdict");
    done.is_stale = text == "time nothing" || (text == "time what I judged" && *judge != getpid());
    if (done.is_stale) return done;
    TRY(follow("time, die once ", [](const std::string& mark) {
      DieOnce(mark);
      return Status();
    }));
    TRY(follow("time, meet ", [](const std::string& folder) { return Meet(folder); }));
    TRY(follow("time, alone ", [](const std::string& folder) { return BeAlone(folder); }));
    const std::string id = text == "time another setting" ? "b" : work.setting;
    records::Bench bench;
    bench.gpu = "fake";
    bench.ceilings.read_bytes = bench.ceilings.copy_bytes = 1;
    bench.settings.resize(1);
    bench.settings[0].id = id;
    done.bench = records::ToJson(bench);
    done.bench["settings"][0]["pid"] = getpid();
    return done;
  }

  /// Fails if another worker is using the same folder.
  static Status BeAlone(const std::filesystem::path& folder) {
    if (!std::filesystem::create_directory(folder / "taken")) {
      return Fail(ErrorCode::kInvalidArgument, "another worker is here", "");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::filesystem::remove(folder / "taken");
    return {};
  }

  /// Waits until a second worker uses the same folder, so that no worker can do all the work.
  static Status Meet(const std::filesystem::path& folder) {
    std::ofstream(folder / std::to_string(getpid())) << "here";
    for (int i = 0; i < 3000; ++i) {
      const auto there = std::filesystem::directory_iterator(folder);
      if (std::distance(begin(there), end(there)) >= 2) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Fail(ErrorCode::kInvalidArgument, "no second worker came in 30 s", "start two");
  }

  WireEnd& wire_;
  RemoteOracle oracle_;
  std::string gpu_;
};

/// `manner`: "" behaves well; those that are compared below break the protocol. Any other text is
/// the UUID of the worker's GPU; "other" is a GPU of another model.
inline int FakeWorkerMain(const std::string& manner) {
  const auto data = os::DataDir();
  auto hello = WhoAmI(data ? *data : std::filesystem::path());
  if (!hello) return 2;
  if (manner == "motd") std::printf("Welcome to node3\nlast login: never\n$ ");
  if (manner == "endless") {
    for (;;) std::printf("chatter chatter chatter chatter chatter\n");
  }
  if (manner == "absent") {
    std::fprintf(stderr, "module not found\n");
    return 7;
  }
  if (manner == "older") hello->program = std::string(64, '0');
  if (manner == "torn") {
    std::printf("%s\n{\"type\":\"rea", LineOf(*hello).c_str());
    return 0;
  }
  if (manner == "garbage") std::printf("%s\nSegmentation fault\n", LineOf(*hello).c_str());
  std::fflush(stdout);
  if (manner == "garbage") std::this_thread::sleep_for(std::chrono::seconds(60));
  WireOptions options;
  options.heartbeat = std::chrono::milliseconds(100);
  options.grace = std::chrono::milliseconds(1000);
  const char* store = std::getenv("CUPEL_TEST_STORE");
  const auto status = RunWorker(*hello, options, [&](const Setup&, WireEnd& wire) {
    return Result<std::unique_ptr<Judge>>(
        std::make_unique<FakeJudge>(wire, store != nullptr ? store : ".", manner));
  });
  return status ? 0 : 2;
}

}  // namespace cupel::serve
