// SPDX-License-Identifier: Apache-2.0
#include "app/review/calibrate.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "app/models.h"
#include "app/session.h"
#include "base/hash.h"
#include "base/version.h"
#include "build/build.h"
#include "device/device.h"
#include "evolve/operation.h"
#include "oracle/installed.h"
#include "os/files.h"
#include "review/calibrate.h"
#include "term/text.h"

namespace cupel::app {
namespace {

constexpr size_t kMaxLabelsBytes = 4u << 20;

/// Descriptions of the tasks' operations. Each is made once.
class Operations {
 public:
  static Result<Operations> Open(const Common& common) {
    Operations operations(common);
    TRY_ASSIGN(operations.device_, device::Find(common.model));
    TRY_ASSIGN(operations.oracle_,
               oracle::OpenInstalled(common.python, common.stop, [](const auto&) {}));
    return operations;
  }
  Result<std::string> TextOf(const std::string& name, bool backward) {
    std::string& text = texts_[{name, backward}];
    if (!text.empty()) return text;
    Target target;
    target.task = name;
    target.backward = backward;
    TRY_ASSIGN(const task::Task task, LoadTarget(target, common_));
    TRY_ASSIGN(const evolve::Operation operation,
               evolve::Describe(task, DirectionOf(target), *oracle_, device_));
    text = evolve::Text(operation);
    return text;
  }

 private:
  explicit Operations(const Common& common) : common_(common) {}
  Common common_;
  device::Description device_;
  std::unique_ptr<oracle::Oracle> oracle_;
  std::map<std::pair<std::string, bool>, std::string> texts_;
};

Result<std::vector<review::CalibrationCase>> ReadCases(const CalibrateOptions& options,
                                                       Events& events) {
  TRY_ASSIGN(const auto labels, review::ReadLabels(options.labels));
  TRY_ASSIGN(Operations operations, Operations::Open(options.common));
  std::vector<review::CalibrationCase> cases;
  for (const review::LabelledKernel& label : labels) {
    Progress state;
    state.stage = "reading kernels";
    state.unit = "kernels";
    state.done = static_cast<int64_t>(cases.size());
    state.total = static_cast<int64_t>(labels.size());
    events.Show(state);
    review::CalibrationCase one;
    one.label = label;
    TRY_ASSIGN(one.subject.source, os::ReadFile(label.kernel, build::kMaxSourceBytes));
    one.subject.is_python = label.kernel.extension() == ".py";
    TRY_ASSIGN(one.subject.operation, operations.TextOf(label.task, label.backward));
    cases.push_back(std::move(one));
  }
  return cases;
}

Status CheckUsable(const review::CalibrationResult& result) {
  for (const review::Review& review : result.reviews) {
    for (const review::Opinion& opinion : review.opinions) {
      if (opinion.usable) return {};
    }
  }
  return Fail(ErrorCode::kIo,
              fmt::format("no reviewer gave a usable answer: {}",
                          Printable(result.reviews.front().opinions.front().reason)),
              "use --transcript FILE to record their answers");
}

Result<Json> Document(const CalibrateOptions& options, const OpenedModels& models,
                      const review::CalibrationResult& result,
                      const std::vector<review::CalibrationCase>& cases) {
  TRY_ASSIGN(const std::string labels, os::ReadFile(options.labels, kMaxLabelsBytes));
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

Result<Calibrated> CalibrateReviewers(const CalibrateOptions& options, Events& events) {
  TRY_ASSIGN(const auto models, OpenedModels::Open(options.models, options.common.stop));
  review::CalibrateOptions calibrating;
  calibrating.reflect = options.reflect;
  if (!options.instructions.empty()) {
    TRY_ASSIGN(calibrating.variants, review::ReadVariants(options.instructions));
  }
  TRY_ASSIGN(const auto cases, ReadCases(options, events));
  calibrating.progress = [&](size_t done, size_t all) {
    Progress state;
    state.stage = "asking reviewers";
    state.unit = "opinions";
    state.done = static_cast<int64_t>(done);
    state.total = static_cast<int64_t>(all);
    events.Show(state);
  };
  auto result = review::Calibrate(cases, models->askers(), calibrating);
  if (!result) {
    Error error = result.error();
    if (error.code == ErrorCode::kCancelled && !options.models.transcript.empty()) {
      error.remedy = "run the same command again to continue from the transcript";
    }
    return tl::unexpected(std::move(error));
  }
  TRY(CheckUsable(*result));
  Calibrated calibrated;
  TRY_ASSIGN(calibrated.document, Document(options, *models, *result, cases));
  calibrated.result = std::move(*result);
  return calibrated;
}

}  // namespace cupel::app
