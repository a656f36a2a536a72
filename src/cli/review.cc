// `cupel review`: language models review a kernel. SPDX-License-Identifier: Apache-2.0
#include "review/review.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "app/candidate.h"
#include "app/models.h"
#include "app/session.h"
#include "base/hash.h"
#include "build/build.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "evolve/operation.h"
#include "judge/verdict_text.h"
#include "os/fd.h"
#include "report/table.h"
#include "report/text.h"
#include "review/calibration.h"

namespace cupel::cli {
namespace {

/// The findings of the emulator or GPU, in the form that the reviewers see.
Result<std::string> FindingsOf(app::Session& session, const ReviewCommand& command,
                               const task::Task& task, const app::CandidateFile& file) {
  TRY_ASSIGN(assay::Candidate candidate, session.assay().Build(file.path));
  candidate.path = "kernel.cu";
  const assay::Question question = QuestionOf(task, command.target, command.common);
  TRY_ASSIGN(const assay::Judged judged, session.assay().Judge(candidate, question));
  return judge::VerdictText(judged.verdict);
}

std::string TextOf(const review::Review& review, const review::ReviewOptions& options) {
  std::string out =
      fmt::format("{}: score {:.2f}, threshold {:.2f}\n", review.passed ? "PASSED" : "NOT PASSED",
                  review.score, options.threshold);
  report::Table table(
      {{"verifier"}, {"model"}, {"says"}, {"confidence", report::Align::kRight}, {"line"}});
  for (const review::Opinion& opinion : review.opinions) {
    const char* says = !opinion.usable ? "unusable" : opinion.fine ? "fine" : "wrong";
    const bool objects = opinion.usable && !opinion.fine;
    table.Add({Name(opinion.aspect), opinion.model, says,
               opinion.usable ? fmt::format("{:.2f}", opinion.confidence) : "-",
               !objects                  ? ""
               : opinion.line_number > 0 ? fmt::format("{}: {}", opinion.line_number, opinion.line)
                                         : "not in the kernel: " + opinion.line});
  }
  out += table.Render(0, "  ");
  for (const review::Opinion& opinion : review.opinions) {
    out += fmt::format("  {}: {}\n", Name(opinion.aspect), report::Printable(opinion.reason));
  }
  return out + fmt::format("  ${:.4f}, {}\n", review.usd, report::Duration(review.seconds));
}

Json JsonOf(const ReviewCommand& command, const task::Task& task, const std::string& source,
            const review::Review& review, const review::ReviewOptions& options) {
  Json json{{"schema", "cupel.review/1"},
            {"kernel", command.kernel.string()},
            {"source_hash", Sha256Hex(source)},
            {"task", task.name},
            {"direction", task::Name(DirectionOf(command.target))},
            {"findings_shown", command.show_findings},
            {"threshold", options.threshold}};
  json.update(review::ToJson(review));
  return json;
}

/// Fails if no reviewer gave a usable answer.
Status CheckUsable(const review::Review& review) {
  const auto usable = [](const review::Opinion& opinion) { return opinion.usable; };
  if (std::any_of(review.opinions.begin(), review.opinions.end(), usable)) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("no reviewer gave a usable answer: {}",
                          report::Printable(review.opinions.front().reason)),
              "use --transcript FILE to record their answers");
}

}  // namespace

Result<int> Run(const ReviewCommand& command) {
  ProgressView view(command.show.quiet);
  const task::Direction direction = DirectionOf(command.target);
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  review::ReviewOptions options;
  if (!command.calibration.empty()) {
    TRY_ASSIGN(options, review::ReadCalibration(command.calibration));
  }
  options.reflect = options.reflect && command.reflect;
  TRY_ASSIGN(const auto models, app::OpenedModels::Open(command.models));
  app::Compile compile = command.compile;
  TRY_ASSIGN(const app::CandidateFile file,
             OpenCandidate(command.kernel, &task, direction, command.common, compile, view));
  review::Subject subject;
  TRY_ASSIGN(subject.source, os::ReadFile(file.path, build::kMaxSourceBytes));

  TRY_ASSIGN(auto session, app::Session::Create(command.common, compile, view));
  TRY_ASSIGN(const evolve::Operation operation,
             evolve::Describe(task, direction, session->oracle(), session->engine().Device()));
  subject.operation = evolve::Text(operation);
  if (command.show_findings) {
    TRY_ASSIGN(subject.findings, FindingsOf(*session, command, task, file));
  }
  view.Show(assay::Progress{"asking reviewers", 0, 0});
  TRY_ASSIGN(const review::Review review, review::AskReviewers(subject, models->askers(), options));
  view.End();
  TRY(CheckUsable(review));
  fmt::print("{}", TextOf(review, options));
  TRY(WriteJson(command.show.json, JsonOf(command, task, subject.source, review, options)));
  return review.passed ? 0 : 1;
}

}  // namespace cupel::cli
