// SPDX-License-Identifier: Apache-2.0
#include "app/check/check.h"

#include "app/candidate.h"
#include "app/check/without_fast_math.h"
#include "app/session.h"

namespace cupel::app {

Result<assay::Judged> Check(const CheckOptions& options, Events& events) {
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, events));
  events.Show(Progress{"building"});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(options.kernel, options.common, options.compile, events));
  ReportNotes(candidate, events);

  assay::Question question = QuestionOf(task, options.target, options.common);
  question.fresh_cases = options.fresh;
  question.shadows = options.shadow;
  question.integers = options.exact;
  question.schedules = options.schedules;
  question.explores = options.explore && question.kinds.empty();
  question.proves = options.prove;
  question.strict_layouts = options.strict_layouts;
  TRY_ASSIGN(question.distributions, DistributionsOf(options.distributions));
  question = ForEngines(std::move(question), options.target, options.common);
  TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
  TRY(TryWithoutFastMath(options.kernel, options.common, options.compile, question, *session,
                         events, judged.verdict));
  for (const std::string& warning : session->oracle().warnings()) {
    judged.verdict.notes.push_back(warning);
  }
  return judged;
}

}  // namespace cupel::app
