// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/selftest.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <regex>

#include "app/session.h"
#include "base/clock.h"
#include "base/lanes.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/process.h"
#include "os/temp_dir.h"

namespace cupel::app {
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

std::vector<std::string> CheckCommandLine(const Specimen& specimen, const Common& common,
                                          const std::filesystem::path& verdict) {
  const std::string& model = specimen.model.empty() ? common.model : specimen.model;
  std::vector<std::string> argv = {"/proc/self/exe",  "check",         specimen.kernel.string(),
                                   "--task",          specimen.task,   "--settings",
                                   specimen.settings, "--device",      common.device,
                                   "--model",         model,           "--quiet",
                                   "--json",          verdict.string()};
  if (specimen.backward) argv.emplace_back("--backward");
  if (common.seed) argv.insert(argv.end(), {"--seed", std::to_string(*common.seed)});
  if (!common.python.empty()) argv.insert(argv.end(), {"--python", common.python});
  return argv;
}

/// An Error means that cupel failed: the process could not be started, or the user cancelled.
Result<CheckOutcome> Check(const Specimen& specimen, const Common& common,
                           const std::filesystem::path& verdict) {
  os::SpawnOptions options;
  options.argv = CheckCommandLine(specimen, common, verdict);
  options.env = os::CurrentEnvironment();
  options.stop = common.stop;
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

class SelftestRun {
 public:
  SelftestRun(const SelftestOptions& options, Events& events)
      : options_(options), events_(events) {}

  Result<SelftestReport> Run() {
    const auto start = Clock::now();
    TRY(Choose());
    std::vector<Examined>& all = report_.all;
    TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
    const size_t jobs = options_.jobs > 0 ? static_cast<size_t>(options_.jobs) : Cores();
    TRY(ForEachOnLanes(jobs, all.size(), [&](size_t lane, size_t item) {
      return Examine(all[item], folder.path() / fmt::format("{}.json", lane));
    }));
    report_.device = options_.common.device;
    report_.seconds = SecondsSince(start);
    return std::move(report_);
  }

 private:
  Status Choose() {
    TRY_ASSIGN(const auto data, os::DataDir());
    TRY_ASSIGN(report_.specimens, ReadCorpora(data));
    TRY_ASSIGN(const std::regex filter, CompileFilter(options_.filter));
    TRY_ASSIGN(const auto gpu, GpuOf(options_.common));
    for (const Specimen& specimen : report_.specimens) {
      if (!std::regex_search(specimen.name, filter)) continue;
      if (gpu ? specimen.needs_emulator : specimen.needs_gpu) {
        report_.skipped.push_back(&specimen);
      } else {
        report_.all.push_back({&specimen, {}});
      }
    }
    if (!report_.all.empty()) return {};
    return Fail(ErrorCode::kNotFound,
                fmt::format("no kernel in {} matches --filter {}", (data / "tests").string(),
                            options_.filter),
                "names look like mustfail/cache_by_pointer");
  }

  Status Examine(Examined& examined, const std::filesystem::path& verdict) {
    TRY_ASSIGN(examined.outcome, Check(*examined.specimen, options_.common, verdict));
    const std::lock_guard lock(mutex_);
    const std::string surprise = SurpriseIn(examined);
    if (!surprise.empty()) {
      ++surprises_;
      events_.Note(fmt::format("{}: {}", examined.specimen->name, surprise));
    }
    Progress state;
    state.stage = examined.specimen->name;
    state.done = ++done_;
    state.total = static_cast<int64_t>(report_.all.size());
    state.unit = "kernels";
    state.result = fmt::format("{} surprises", surprises_);
    events_.Show(state);
    return {};
  }

  const SelftestOptions& options_;
  Events& events_;
  std::mutex mutex_;
  SelftestReport report_;
  int64_t done_ = 0;
  int surprises_ = 0;
};

}  // namespace

Result<SelftestReport> Selftest(const SelftestOptions& options, Events& events) {
  return SelftestRun(options, events).Run();
}

}  // namespace cupel::app
