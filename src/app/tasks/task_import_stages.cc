// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "app/session.h"
#include "app/tasks/task_import.h"
#include "oracle/filter.h"
#include "oracle/oracle.h"
#include "os/folders.h"
#include "task/reduced.h"

namespace cupel::app {
namespace {

// The cost of a case, relative to one call of its reference. A case needs float32, float64 and
// perturbed answers, for eight draws and for the case itself. The float64 run needs most memory.
constexpr double kBytesAnElement = 32;
constexpr double kFlopsASecond = 5e8;  // of one busy core, including float64 and small operations
constexpr double kCallsACase = 27;
constexpr uint64_t kSeeds[] = {0, 1, 2, 3, 4};

}  // namespace

struct ImportStages::Impl {
  Impl(const ImportOptions& given, oracle::Options oracle_options,
       oracle::FilterOptions filter_options)
      : options(given), oracle(std::move(oracle_options)), filter(std::move(filter_options)) {}
  ImportOptions options;
  oracle::TorchOracle oracle;
  oracle::Filter filter;

  bool Fits(const oracle::Imported& imported) const {
    return imported.elements * kBytesAnElement < static_cast<double>(options.memory) &&
           imported.flops * kCallsACase < options.seconds * kFlopsASecond;
  }
  Status AskOracle(const task::Task& task, const task::Setting& setting, StageResult& result);
  Status AskFilter(const task::Task& task, const task::Setting& setting, StageResult& result);
};

Status ImportStages::Impl::AskOracle(const task::Task& task, const task::Setting& setting,
                                     StageResult& result) {
  auto cases = oracle.Cases(task, task::Direction::kForward, setting, 1, 0);
  if (!cases) {
    const ErrorCode code = cases.error().code;
    if (code == ErrorCode::kCancelled || code == ErrorCode::kEnvironment) {
      return tl::unexpected<Error>(cases.error());
    }
    result = {"failed", cases.error().message};
  } else if (const auto* failure = std::get_if<oracle::SettingFailure>(&cases->front())) {
    result = {"failed", failure->message};
  } else {
    result = {"ran", ""};
  }
  return {};
}

Status ImportStages::Impl::AskFilter(const task::Task& task, const task::Setting& setting,
                                     StageResult& result) {
  TRY_ASSIGN(const auto outcome, filter.Measure(task, task::Direction::kForward, setting, kSeeds));
  std::vector<oracle::QualityCheck> checks;
  if (const auto* much = std::get_if<oracle::TooMuch>(&outcome)) {
    result = {Name(FilterVerdict::kNotExamined), much->message};
    return {};
  }
  if (const auto* failure = std::get_if<oracle::SettingFailure>(&outcome)) {
    checks.push_back(oracle::ReferenceFails(failure->message));
  } else {
    checks = oracle::JudgeQuality(std::get<oracle::TaskMeasures>(outcome), {});
  }
  result.verdict =
      Name(oracle::IsFlagged(checks) ? FilterVerdict::kFlagged : FilterVerdict::kClean);
  for (const oracle::QualityCheck& check : checks) {
    if (!oracle::IsFlagged({check})) continue;
    result.message +=
        fmt::format("{}{}: {}", result.message.empty() ? "" : "; ", check.name, check.reason);
  }
  return {};
}

ImportStages::ImportStages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ImportStages::~ImportStages() = default;

Result<std::unique_ptr<ImportStages>> ImportStages::Create(const ImportOptions& options) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  oracle::Options oracle;
  oracle.script = data / "src" / "oracle" / "py" / "oracle.py";
  oracle.python = options.common.python;
  oracle.step_deadline = std::chrono::seconds(options.seconds);
  oracle.stop = options.common.stop;
  oracle::FilterOptions filter;
  filter.script = data / "src" / "oracle" / "py" / "filter.py";
  filter.python = options.common.python;
  filter.cache = cache / "cases";
  filter.deadline = std::chrono::seconds(options.seconds);
  filter.memory = options.memory;
  filter.stop = options.common.stop;
  return std::unique_ptr<ImportStages>(
      new ImportStages(std::make_unique<Impl>(options, std::move(oracle), std::move(filter))));
}

Status ImportStages::Run(const std::filesystem::path& folder, const oracle::Imported& imported,
                         ImportedProblem& problem) {
  TRY_ASSIGN(task::Task own, task::LoadTask(folder.string(), folder.parent_path()));
  const bool fits = impl_->Fits(imported);
  const task::Task task = fits ? std::move(own) : task::Reduced(std::move(own));
  if (!fits && !task.reduced) {
    problem.oracle = {
        "not run", fmt::format("exceeds the limits ({:.3g} bytes, {:.3g} operations per call), and "
                               "no smaller sizes are known",
                               imported.elements * 4, imported.flops)};
    problem.filter = {Name(FilterVerdict::kNotExamined), problem.oracle.message};
    return {};
  }
  const task::Setting& setting = task.SettingsOf(task::Direction::kForward).front();
  problem.at = setting.reduced;
  TRY(impl_->AskOracle(task, setting, problem.oracle));
  if (problem.oracle.verdict != "ran") {
    problem.filter = {Name(FilterVerdict::kNotExamined), "the oracle did not run"};
    return {};
  }
  return impl_->AskFilter(task, setting, problem.filter);
}

}  // namespace cupel::app
