// `cupel check`: builds and judges one kernel.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "app/candidate.h"
#include "app/session.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "plan/codec.h"

namespace cupel::cli {

Result<int> Run(const CheckCommand& command) {
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view));
  view.Show(assay::Progress{"building", 0, 0});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(command.kernel, task, DirectionOf(command.target), command.common,
                            command.compile, view));

  assay::Question question = QuestionOf(task, command.target, command.common);
  question.fresh_cases = command.fresh;
  question.shadows = command.shadow;
  question.integers = command.exact;
  question.schedules = command.schedules;
  TRY_ASSIGN(question.distributions, app::DistributionsOf(command.distributions));
  TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
  view.End();
  for (const std::string& warning : session->oracle().warnings()) {
    judged.verdict.notes.push_back("task: " + warning);
  }

  judge::TextOptions text;
  text.colour = ::isatty(STDOUT_FILENO) != 0;
  fmt::print("{}", judge::VerdictText(judged.verdict, text));
  TRY(WriteJson(command.show.json, judge::ToJson(judged.verdict)));
  if (!command.plan.empty()) {
    if (judged.plan) {
      TRY(WriteJson(command.plan, plan::ToJson(*judged.plan)));
    } else {
      fmt::print(stderr, "cupel: no plan was recorded, so {} was not written\n",
                 command.plan.string());
    }
  }
  return judge::ExitStatus(judged.verdict.decision);
}

}  // namespace cupel::cli
