// SPDX-License-Identifier: Apache-2.0
#include "app/review/review_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/candidate.h"
#include "app/models.h"
#include "app/session.h"
#include "base/hash.h"
#include "build/build.h"
#include "evolve/operation.h"
#include "judge/verdict_text.h"
#include "os/files.h"
#include "review/calibration.h"
#include "term/text.h"

namespace cupel::app {
namespace {

/// The findings of the emulator or GPU, in the form that the reviewers see.
Result<std::string> FindingsOf(Session& session, const ReviewOptions& options,
                               const task::Task& task) {
  TRY_ASSIGN(assay::Candidate candidate, session.assay().Build(options.kernel));
  const assay::Question question = QuestionOf(task, options.target, options.common);
  TRY_ASSIGN(assay::Judged judged, session.assay().Judge(candidate, question));
  judged.verdict.kernel_path = "kernel" + options.kernel.extension().string();
  return judge::VerdictText(judged.verdict);
}

/// Fails if no reviewer gave a usable answer.
Status CheckUsable(const review::Review& review) {
  const auto usable = [](const review::Opinion& opinion) { return opinion.usable; };
  if (std::any_of(review.opinions.begin(), review.opinions.end(), usable)) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("no reviewer gave a usable answer: {}",
                          Printable(review.opinions.front().reason)),
              "use --transcript FILE to record their answers");
}

}  // namespace

Result<KernelReview> ReviewKernel(const ReviewOptions& options, Events& events) {
  TRY(RequireOneFile(options.kernel));
  const task::Direction direction = DirectionOf(options.target);
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  KernelReview result;
  if (!options.calibration.empty()) {
    TRY_ASSIGN(result.options, review::ReadCalibration(options.calibration));
  }
  result.options.reflect = result.options.reflect && options.reflect;
  TRY_ASSIGN(const auto models, OpenedModels::Open(options.models, options.common.stop));
  review::Subject subject;
  TRY_ASSIGN(subject.source, os::ReadFile(options.kernel, build::kMaxSourceBytes));
  subject.is_python = options.kernel.extension() == ".py";
  Common common = options.common;
  common.engines = "gpu";  // one verdict is enough to read
  TRY_ASSIGN(auto session, Session::Create(common, options.compile, events));
  TRY_ASSIGN(evolve::Operation operation,
             evolve::Describe(task, direction, session->oracle(), session->engine().Device()));
  if (subject.is_python) operation.form = evolve::Form::kPython;
  operation.operators = QuestionOf(task, options.target, options.common).operators;
  subject.operation = evolve::Text(operation);
  if (options.show_findings) {
    TRY_ASSIGN(subject.findings, FindingsOf(*session, options, task));
  }
  events.Show(Progress{"asking reviewers"});
  TRY_ASSIGN(result.review, review::AskReviewers(subject, models->askers(), result.options));
  TRY(CheckUsable(result.review));
  result.document = Json{{"schema", "cupel.review/1"},
                         {"kernel", options.kernel.string()},
                         {"source_hash", Sha256Hex(subject.source)},
                         {"task", task.name},
                         {"direction", task::Name(direction)},
                         {"findings_shown", options.show_findings},
                         {"threshold", result.options.threshold}};
  result.document.update(review::ToJson(result.review));
  return result;
}

}  // namespace cupel::app
