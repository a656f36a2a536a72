// `cupel review calibrate`: measures and tunes reviewers on labelled kernels.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "app/models.h"
#include "app/session.h"
#include "base/hash.h"
#include "base/version.h"
#include "build/build.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "device/device.h"
#include "evolve/operation.h"
#include "oracle/installed.h"
#include "os/fd.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/text.h"
#include "review/calibrate.h"
#include "stats/wilson.h"

namespace cupel::cli {
namespace {

constexpr size_t kMaxLabelsBytes = 4u << 20;

/// Descriptions of the tasks' operations. Each is made once.
class Operations {
 public:
  static Result<Operations> Open(const app::Common& common) {
    Operations operations(common);
    TRY_ASSIGN(operations.device_, device::Find(common.model));
    TRY_ASSIGN(operations.oracle_, oracle::OpenInstalled(common.python, [](const auto&) {}));
    return operations;
  }
  Result<std::string> TextOf(const std::string& name, bool backward) {
    std::string& text = texts_[{name, backward}];
    if (!text.empty()) return text;
    app::Target target;
    target.task = name;
    target.backward = backward;
    TRY_ASSIGN(const task::Task task, LoadTarget(target, common_));
    TRY_ASSIGN(const evolve::Operation operation,
               evolve::Describe(task, DirectionOf(target), *oracle_, device_));
    text = evolve::Text(operation);
    return text;
  }

 private:
  explicit Operations(const app::Common& common) : common_(common) {}
  app::Common common_;
  device::Description device_;
  std::unique_ptr<oracle::Oracle> oracle_;
  std::map<std::pair<std::string, bool>, std::string> texts_;
};

Result<std::vector<review::CalibrationCase>> ReadCases(const CalibrateCommand& command,
                                                       report::Progress& progress) {
  TRY_ASSIGN(const auto labels, review::ReadLabels(command.labels));
  TRY_ASSIGN(Operations operations, Operations::Open(command.common));
  std::vector<review::CalibrationCase> cases;
  for (const review::LabelledKernel& label : labels) {
    report::ProgressState state;
    state.activity = "reading kernels";
    state.unit = "kernels";
    state.done = static_cast<int64_t>(cases.size());
    state.total = static_cast<int64_t>(labels.size());
    progress.Update(state);
    review::CalibrationCase one;
    one.label = label;
    TRY_ASSIGN(one.subject.source, os::ReadFile(label.kernel, build::kMaxSourceBytes));
    TRY_ASSIGN(one.subject.operation, operations.TextOf(label.task, label.backward));
    cases.push_back(std::move(one));
  }
  return cases;
}

std::string Share(int64_t hits, int64_t trials) {
  if (trials == 0) return "-";
  const stats::Interval share = stats::Wilson(hits, trials);
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", share.estimate, share.low, share.high);
}

std::vector<std::string> Cells(std::string who, const review::Rates& rates) {
  return {std::move(who),
          std::to_string(rates.all()),
          Share(rates.found + rates.passed, rates.all()),
          fmt::format("{:.2f}", rates.Balanced()),
          Share(rates.found, rates.found + rates.stopped),
          Share(rates.found, rates.found + rates.missed)};
}

std::string TextOf(const review::CalibrationResult& result) {
  using report::Align;
  report::Table table({{"verifier"},
                       {"kernels", Align::kRight},
                       {"accuracy"},
                       {"balanced", Align::kRight},
                       {"precision"},
                       {"recall"},
                       {"unusable", Align::kRight},
                       {"misquoted", Align::kRight},
                       {"cost", Align::kRight}});
  for (const review::VerifierRates& each : result.verifiers) {
    auto cells = Cells(fmt::format("{} ({})", Name(each.aspect), each.model), each.rates);
    cells.push_back(std::to_string(each.unusable));
    cells.push_back(std::to_string(each.misquoted));
    cells.push_back(fmt::format("${:.4f}", each.usd));
    table.Add(std::move(cells));
    if (result.options.reflect) table.Add(Cells("  before reflection", each.before));
  }
  table.Add(Cells("vote, tuned", result.vote));
  table.Add(Cells("vote, plain majority", result.majority));
  return fmt::format(
      "Tuned on {} kernels, measured on the other {}; 95 % intervals (Wilson). Precision: share of "
      "real faults among kernels called wrong. Recall: share of faulty kernels that were "
      "found.\n{}threshold {:.3f}; weights compile {:.2f}, memory {:.2f}, numerics {:.2f}; ${:.4f} "
      "in total\n",
      result.tuned_on, result.reported_on, table.Render(0, "  "), result.options.threshold,
      result.options.weights[0], result.options.weights[1], result.options.weights[2], result.usd);
}

Status CheckUsable(const review::CalibrationResult& result) {
  for (const review::Review& review : result.reviews) {
    for (const review::Opinion& opinion : review.opinions) {
      if (opinion.usable) return {};
    }
  }
  return Fail(ErrorCode::kIo,
              fmt::format("no reviewer gave a usable answer: {}",
                          report::Printable(result.reviews.front().opinions.front().reason)),
              "use --transcript FILE to record their answers");
}

Result<Json> Document(const CalibrateCommand& command, const app::OpenedModels& models,
                      const review::CalibrationResult& result,
                      const std::vector<review::CalibrationCase>& cases) {
  TRY_ASSIGN(const std::string labels, os::ReadFile(command.labels, kMaxLabelsBytes));
  Json names = Json::array();
  for (const llm::Asker* asker : models.askers()) names.push_back(asker->model());
  Json json{{"schema", "cupel.calibration/1"},
            {"cupel", kVersion},
            {"models", std::move(names)},
            {"labels_hash", Sha256Hex(labels)}};
  json.update(review::ToJson(result, cases));
  return json;
}

}  // namespace

Result<int> Run(const CalibrateCommand& command) {
  TRY_ASSIGN(const auto models, app::OpenedModels::Open(command.models));
  review::CalibrateOptions options;
  options.reflect = command.reflect;
  if (!command.instructions.empty()) {
    TRY_ASSIGN(options.variants, review::ReadVariants(command.instructions));
  }
  report::Progress progress(command.show.quiet);
  TRY_ASSIGN(const auto cases, ReadCases(command, progress));
  options.progress = [&](size_t done, size_t all) {
    report::ProgressState state;
    state.activity = "asking reviewers";
    state.unit = "opinions";
    state.done = static_cast<int64_t>(done);
    state.total = static_cast<int64_t>(all);
    progress.Update(state);
  };
  auto result = review::Calibrate(cases, models->askers(), options);
  progress.Finish();
  if (!result) {
    Error error = result.error();
    if (error.code == ErrorCode::kCancelled && !command.models.transcript.empty()) {
      error.remedy = "run the same command again to continue from the transcript";
    }
    return tl::unexpected(std::move(error));
  }
  TRY(CheckUsable(*result));
  TRY_ASSIGN(const Json document, Document(command, *models, *result, cases));
  TRY(WriteJson(command.output, document));
  fmt::print("{}", TextOf(*result));
  return 0;
}

}  // namespace cupel::cli
