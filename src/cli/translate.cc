// `cupel translate`: lets models write a first correct CUDA kernel for a PyTorch operation.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "app/models.h"
#include "app/search/run.h"
#include "app/search/run_summary.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/operation.h"
#include "evolve/translator.h"
#include "os/fd.h"
#include "report/objective_kind.h"

namespace cupel::cli {
namespace {

Json ToJson(const TranslateCommand& command, const std::string& operation) {
  Json json = RunJson(command.common, command.compile, command.target);
  json["translate"] =
      Json{{"models", command.models.specs},
           {"attempts", command.attempts.value_or(evolve::TranslateOptions().attempts)}};
  json["translate"].update(BudgetJson(command.models));
  json["operation"] = operation;
  return json;
}

/// Fills `command` with the run's configuration. Returns the description of the operation.
Result<std::string> FromJson(const Json& json, TranslateCommand& command) {
  if (!json.contains("translate")) {
    return Fail(ErrorCode::kInvalidArgument, "this is not a run of cupel translate",
                "continue it with cupel optimize --resume");
  }
  TRY(ReadRun(json, command.common, command.compile, command.target));
  TRY_ASSIGN(const Json* translate, JsonObject(json, "translate", app::kRunConfig));
  if (command.models.specs.empty()) {
    TRY_ASSIGN(command.models.specs, app::Strings(*translate, "models"));
  }
  if (!command.attempts) {
    int attempts = 0;
    TRY(app::ReadInt(*translate, "attempts", attempts));
    command.attempts = attempts;
  }
  TRY(ReadBudget(*translate, command.models));
  return JsonString(json, "operation", app::kRunConfig);
}

/// Like "attempt 2 (MODEL): candidate 1, Tiled product is not correct", followed by the reasons.
std::string AttemptText(const evolve::Attempt& attempt) {
  std::string text = fmt::format("attempt {} ({}): ", attempt.number, Printable(attempt.model));
  if (!attempt.candidate) {
    return text + "no kernel in the answer: " + Fit(Printable(attempt.problem), 200) + "\n";
  }
  text += fmt::format("candidate {}{}{} {}\n", *attempt.candidate, attempt.name.empty() ? "" : ", ",
                      Printable(attempt.name), attempt.accepted ? "is correct" : "is not correct");
  for (std::string_view rest = attempt.problem; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    text += "  " + Fit(Printable(rest.substr(0, end)), 160) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

Json AttemptJson(const evolve::Attempt& attempt) {
  return Json{{"number", attempt.number},
              {"model", attempt.model},
              {"name", attempt.name},
              {"candidate", attempt.candidate ? Json(*attempt.candidate) : Json()},
              {"accepted", attempt.accepted},
              {"problem", attempt.problem}};
}

Status WriteReport(const TranslateCommand& command, const app::OpenRun& run,
                   const evolve::Translation& translation, const llm::Spending& spent) {
  Json attempts = Json::array();
  for (const evolve::Attempt& attempt : translation.attempts) {
    attempts.push_back(AttemptJson(attempt));
  }
  return WriteJson(command.show.json,
                   Json{{"schema", "cupel.translation/1"},
                        {"task", run.info.task},
                        {"direction", run.info.direction},
                        {"run", run.folder.string()},
                        {"accepted", translation.kernel.has_value()},
                        {"kernel", translation.kernel ? command.output.string() : std::string()},
                        {"attempts", std::move(attempts)},
                        {"tokens", spent.tokens},
                        {"usd", llm::Dollars(spent.money)}});
}

/// Writes the kernel, and prints the result of each attempt.
Result<int> Conclude(TranslateCommand& command, app::OpenRun& run,
                     const evolve::Translation& translation, const llm::Spending& spent) {
  TRY(run.archive.SetStatus(archive::RunStatus::kFinished));
  if (command.output.empty()) command.output = run.folder / app::kBestFile;
  for (const evolve::Attempt& attempt : translation.attempts) {
    if (!command.show.quiet || attempt.number == static_cast<int>(translation.attempts.size())) {
      fmt::print("{}", AttemptText(attempt));
    }
  }
  if (translation.kernel) {
    TRY_ASSIGN(const std::string source, run.archive.Source(*translation.kernel));
    TRY(os::WriteFileAtomically(command.output, source));
    TRY_ASSIGN(const archive::Candidate kernel, run.archive.Get(*translation.kernel));
    TRY_ASSIGN(const auto verdict, run.archive.LatestVerdict(*translation.kernel));
    fmt::print("correct: {}{}\n", command.output.string(),
               kernel.objective && verdict
                   ? ", " + report::ObjectiveText(verdict->objective_kind, *kernel.objective)
                   : std::string());
  } else {
    fmt::print(
        "no kernel is correct after {} attempts; to allow more attempts: cupel translate "
        "--resume {} --attempts N\n",
        translation.attempts.size(), run.folder.string());
  }
  TRY(WriteReport(command, run, translation, spent));
  return translation.kernel ? 0 : 1;
}

}  // namespace

Result<int> Run(const TranslateCommand& given) {
  TranslateCommand command = given;
  std::optional<app::OpenRun> run;
  std::string operation;
  if (!command.resume.empty()) {
    TRY_ASSIGN(run, app::ResumeRun(command.resume));
    TRY_ASSIGN(const Json config, ParseJson(run->info.config, app::kRunConfig));
    TRY_ASSIGN(operation, FromJson(config, command));
  }
  TRY_ASSIGN(const std::vector<llm::ModelSpec> specs, app::SpecsOf(command.models));
  const task::Direction direction = DirectionOf(command.target);
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  if (run) TRY(CheckTask(*run, task, direction));
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view, true));
  TRY_ASSIGN(const auto objective, MakeObjective("time", *session, view));
  evolve::TranslateOptions options;
  options.attempts = command.attempts.value_or(options.attempts);
  command.attempts = options.attempts;
  if (!run) {
    TRY_ASSIGN(const evolve::Operation described,
               evolve::Describe(task, direction, session->oracle(), session->engine().Device()));
    operation = Text(described);
    TRY_ASSIGN(run,
               StartRun(command.run, task, direction, command.common, ToJson(command, operation)));
  }
  options.operation = operation;

  evolve::EvaluatorOptions evaluating;
  evaluating.device = session->engine().Device();
  evaluating.seed = run->info.seed;
  evaluating.user_seed = true;  // draw cases from the run's own seed, which models do not know
  TRY_ASSIGN(evaluating.source_folder, CandidatesFolder(*run));
  evolve::Evaluator evaluator({run->archive, session->assay(), *objective},
                              RunQuestion(task, command.target), evaluating,
                              [&](const evolve::RunProgress& p) { view.Show(p); });
  llm::RecordedOptions conversing;
  conversing.limits = app::LimitsOf(command.models);
  conversing.seed = run->info.seed;
  TRY_ASSIGN(const auto conversations,
             evolve::Conversations::Open(run->archive, specs, conversing));
  const auto translation =
      evolve::Translate(run->archive, evaluator, conversations->askers(), options);
  view.End();
  if (!translation) {
    TRY_ASSIGN(Error error, StopEarly(*run, translation.error(), "translate"));
    return tl::unexpected(std::move(error));
  }
  return Conclude(command, *run, *translation, conversations->Spent());
}

}  // namespace cupel::cli
