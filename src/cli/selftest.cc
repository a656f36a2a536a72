// `cupel selftest`: judges both corpora in the ordinary way. Each kernel goes to a separate
// process, `cupel check`, so that it is treated exactly like a user's kernel.
// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <regex>
#include <thread>

#include "app/lanes.h"
#include "app/session.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "os/fd.h"
#include "os/process.h"
#include "report/progress.h"

namespace cupel::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kDeadline{5};  // for one check; a timeout is an unexpected result
constexpr size_t kMostVerdictBytes = 64u << 20;

Result<std::regex> CompileFilter(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--filter {} is not a regular expression: {}", pattern, error.what()),
                "for example --filter 'mustfail/cache'");
  }
}

std::vector<std::string> CheckCommandLine(const Specimen& specimen, const app::Common& common,
                                          const std::filesystem::path& verdict) {
  std::vector<std::string> argv = {"/proc/self/exe",  "check",         specimen.kernel.string(),
                                   "--task",          specimen.task,   "--settings",
                                   specimen.settings, "--device",      common.device,
                                   "--model",         common.model,    "--quiet",
                                   "--json",          verdict.string()};
  if (specimen.backward) argv.emplace_back("--backward");
  if (common.seed) argv.insert(argv.end(), {"--seed", std::to_string(*common.seed)});
  if (!common.python.empty()) argv.insert(argv.end(), {"--python", common.python});
  return argv;
}

/// An Error means that cupel failed: the process could not be started, or the user cancelled.
Result<CheckOutcome> Check(const Specimen& specimen, const app::Common& common,
                           const std::filesystem::path& verdict) {
  os::SpawnOptions options;
  options.argv = CheckCommandLine(specimen, common, verdict);
  options.env = os::CurrentEnvironment();
  const auto start = Clock::now();
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(options), kDeadline));
  CheckOutcome outcome;
  if (run.status.timed_out || !run.status.exited) {
    outcome.decision = run.status.timed_out ? "timed_out" : "crashed";
    outcome.message = "cupel check: " + run.status.Describe();
  } else if (auto text = os::ReadFile(verdict, kMostVerdictBytes); !text) {
    outcome.decision = "crashed";
    outcome.message =
        fmt::format("no verdict, {}: {}", run.status.Describe(), run.err.substr(0, 1000));
  } else {
    TRY_ASSIGN(const Json json, ParseJson(*text, "the verdict"));
    outcome = OutcomeOf(run.status.code, json);
  }
  outcome.seconds = SecondsSince(start);
  std::error_code ignored;
  std::filesystem::remove(verdict, ignored);
  return outcome;
}

class Selftest {
 public:
  explicit Selftest(const SelftestCommand& command)
      : command_(command), progress_(command.show.quiet) {}

  Result<int> Run() {
    const auto start = Clock::now();
    TRY(Choose());
    TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
    const size_t jobs = command_.jobs > 0 ? static_cast<size_t>(command_.jobs)
                                          : std::max(1u, std::thread::hardware_concurrency());
    TRY(app::ForEachOnLanes(
        std::min(jobs, all_.size()), all_.size(), [&](size_t lane, size_t item) {
          return Examine(all_[item], folder.path() / fmt::format("{}.json", lane));
        }));
    progress_.Finish();
    const double seconds = SecondsSince(start);
    fmt::print("{}", SelftestText(all_, skipped_, seconds));
    TRY(WriteJson(command_.show.json,
                  SelftestJson(all_, skipped_, command_.common.device, seconds)));
    return RatesOf(all_).surprises == 0 ? 0 : 1;
  }

 private:
  Status Choose() {
    TRY_ASSIGN(const auto data, os::DataDir());
    TRY_ASSIGN(specimens_, ReadCorpora(data));
    TRY_ASSIGN(const std::regex filter, CompileFilter(command_.filter));
    TRY_ASSIGN(const auto gpu, GpuOf(command_.common));
    for (const Specimen& specimen : specimens_) {
      if (!std::regex_search(specimen.name, filter)) continue;
      if (gpu ? specimen.needs_emulator : specimen.needs_gpu) {
        skipped_.push_back(&specimen);
      } else {
        all_.push_back({&specimen, {}});
      }
    }
    if (!all_.empty()) return {};
    return Fail(ErrorCode::kNotFound,
                fmt::format("no kernel in {} matches --filter {}", (data / "tests").string(),
                            command_.filter),
                "names look like mustfail/cache_by_pointer");
  }

  Status Examine(Examined& examined, const std::filesystem::path& verdict) {
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "cancelled");
    TRY_ASSIGN(examined.outcome, Check(*examined.specimen, command_.common, verdict));
    const std::lock_guard lock(mutex_);
    const std::string surprise = SurpriseIn(examined);
    if (!surprise.empty()) {
      ++surprises_;
      progress_.Note(fmt::format("{}: {}", examined.specimen->name, surprise));
    }
    report::ProgressState state;
    state.activity = examined.specimen->name;
    state.done = ++done_;
    state.total = static_cast<int64_t>(all_.size());
    state.unit = "kernels";
    state.best = fmt::format("{} surprises", surprises_);
    progress_.Update(state);
    return {};
  }

  SelftestCommand command_;
  report::Progress progress_;
  std::mutex mutex_;
  std::vector<Specimen> specimens_;
  std::vector<const Specimen*> skipped_;
  std::vector<Examined> all_;
  int64_t done_ = 0;
  int surprises_ = 0;
};

}  // namespace

Result<int> Run(const SelftestCommand& command) { return Selftest(command).Run(); }

}  // namespace cupel::cli
