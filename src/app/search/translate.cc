// SPDX-License-Identifier: Apache-2.0
#include "app/search/translate.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "app/models.h"
#include "app/search/run.h"
#include "app/search/run_summary.h"
#include "base/part_events.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/operation.h"
#include "evolve/translator.h"
#include "os/files.h"

namespace cupel::app {
namespace {

Json ToJson(const TranslateOptions& options, const std::string& operation) {
  Json json = RunJson(options.common, options.compile, options.target);
  json["translate"] =
      Json{{"models", options.models.specs},
           {"attempts", options.attempts.value_or(evolve::TranslateOptions().attempts)}};
  json["translate"].update(BudgetJson(options.models));
  json["operation"] = operation;
  json["form"] = options.form;
  return json;
}

/// Fills `options` with the run's configuration. Returns the description of the operation.
Result<std::string> FromJson(const Json& json, TranslateOptions& options) {
  if (!json.contains("translate")) {
    return Fail(ErrorCode::kInvalidArgument, "this is not a run of cupel translate",
                "continue it with cupel optimize --resume");
  }
  TRY(ReadRun(json, options.common, options.compile, options.target));
  TRY_ASSIGN(const Json* translate, JsonObject(json, "translate", kRunConfig));
  if (options.models.specs.empty()) {
    TRY_ASSIGN(options.models.specs, Strings(*translate, "models"));
  }
  if (!options.attempts) {
    int attempts = 0;
    TRY(ReadInt(*translate, "attempts", attempts));
    options.attempts = attempts;
  }
  TRY(ReadBudget(*translate, options.models));
  if (json.contains("form")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(options.form, JsonString(json, "form", kRunConfig));
  }
  return JsonString(json, "operation", kRunConfig);
}

evolve::Form FormOf(const TranslateOptions& options) {
  return evolve::FormNamed(options.form).value_or(evolve::Form::kCuda);
}

Json AttemptJson(const evolve::Attempt& attempt) {
  return Json{{"number", attempt.number},
              {"model", attempt.model},
              {"name", attempt.name},
              {"candidate", attempt.candidate ? Json(*attempt.candidate) : Json()},
              {"accepted", attempt.accepted},
              {"problem", attempt.problem}};
}

Json Document(const OpenRun& run, const TranslateReport& report, const llm::Spending& spent) {
  Json attempts = Json::array();
  for (const evolve::Attempt& attempt : report.attempts) attempts.push_back(AttemptJson(attempt));
  return Json{{"schema", "cupel.translation/1"},
              {"task", run.info.task},
              {"direction", run.info.direction},
              {"run", run.folder.string()},
              {"accepted", report.accepted},
              {"kernel", report.accepted ? report.kernel.string() : std::string()},
              {"attempts", std::move(attempts)},
              {"tokens", spent.tokens},
              {"usd", llm::Dollars(spent.money)}};
}

/// Writes the kernel.
Result<TranslateReport> Conclude(const TranslateOptions& options, OpenRun& run,
                                 evolve::Translation translation, const llm::Spending& spent) {
  TRY(run.archive.SetStatus(archive::RunStatus::kFinished));
  TranslateReport report;
  report.folder = run.folder;
  report.kernel = options.output.empty() ? run.folder / BestFile(FormOf(options)) : options.output;
  report.attempts = std::move(translation.attempts);
  report.accepted = translation.kernel.has_value();
  report.document = Document(run, report, spent);
  if (!report.accepted) return report;
  TRY_ASSIGN(const std::string source, run.archive.Source(*translation.kernel));
  TRY_ASSIGN(const archive::Candidate kernel, run.archive.Get(*translation.kernel));
  TRY_ASSIGN(const auto verdict, run.archive.LatestVerdict(*translation.kernel));
  if (kernel.objective && verdict) {
    report.objective = kernel.objective;
    report.objective_kind = verdict->objective_kind;
  }
  report.status = os::WriteFileAtomically(report.kernel, source);
  return report;
}

}  // namespace

Result<TranslateReport> Translate(const TranslateOptions& given, Events& events) {
  TranslateOptions options = given;
  std::optional<OpenRun> run;
  std::string operation;
  if (!options.resume.empty()) {
    TRY_ASSIGN(run, ResumeRun(options.resume));
    TRY_ASSIGN(const Json config, ParseJson(run->info.config, kRunConfig));
    TRY_ASSIGN(operation, FromJson(config, options));
  }
  TRY_ASSIGN(const std::vector<llm::ModelSpec> specs, SpecsOf(options.models));
  const task::Direction direction = DirectionOf(options.target);
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  if (run) TRY(CheckTask(*run, task, direction));
  PartEvents parts(events);
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, parts, true));
  TRY_ASSIGN(const auto objective, MakeObjective("time", *session));
  evolve::TranslateOptions translating;
  translating.attempts = options.attempts.value_or(translating.attempts);
  options.attempts = translating.attempts;
  if (!run) {
    TRY(CheckForm(FormOf(options), options.target));
    TRY_ASSIGN(evolve::Operation described,
               evolve::Describe(task, direction, session->oracle(), session->engine().Device()));
    described.form = FormOf(options);
    described.operators = OperatorsOf(options.target);
    operation = Text(described);
    TRY_ASSIGN(run,
               StartRun(options.run, task, direction, options.common, ToJson(options, operation)));
  }
  translating.operation = operation;

  evolve::EvaluatorOptions evaluating;
  evaluating.device = session->engine().Device();
  evaluating.form = FormOf(options);
  evaluating.seed = run->info.seed;
  evaluating.stop = options.common.stop;
  evaluating.objective_text = ObjectiveTextOf(*objective);
  evaluating.user_seed = true;  // draw cases from the run's own seed, which models do not know
  TRY_ASSIGN(evaluating.source_folder, CandidatesFolder(*run));
  evolve::Evaluator evaluator(
      {run->archive, session->assay(), *objective, parts, session->emulator()},
      RunQuestion(task, options.target, options.common), evaluating);
  llm::RecordedOptions conversing;
  conversing.limits = LimitsOf(options.models);
  conversing.seed = run->info.seed;
  conversing.stop = options.common.stop;
  TRY_ASSIGN(const auto conversations,
             evolve::Conversations::Open(run->archive, specs, conversing));
  auto translation =
      evolve::Translate(run->archive, evaluator, conversations->askers(), translating);
  if (!translation) {
    TRY_ASSIGN(Error error, StopEarly(*run, translation.error(), "translate"));
    return tl::unexpected(std::move(error));
  }
  return Conclude(options, *run, std::move(*translation), conversations->Spent());
}

}  // namespace cupel::app
