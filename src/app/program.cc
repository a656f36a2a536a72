// SPDX-License-Identifier: Apache-2.0
#include "app/program.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "app/session.h"
#include "assay/open_recorder.h"
#include "base/hash.h"

namespace cupel::app {
namespace {

constexpr auto kForward = task::Direction::kForward;

struct Call {
  const task::Setting* setting;
  task::Case arguments;
};

/// The first setting of the task at which its reference works.
Result<Call> FirstCall(Session& session, const task::Task& task, const Common& common) {
  std::string why;
  for (const task::Setting& setting : task.SettingsOf(kForward)) {
    TRY_ASSIGN(auto cases, session.oracle().Cases(task, kForward, setting, 1, common.seed));
    if (cases.empty()) continue;
    if (auto* drawn = std::get_if<task::Case>(&cases[0])) return Call{&setting, std::move(*drawn)};
    if (why.empty()) why = ": " + std::get<oracle::SettingFailure>(cases[0]).message;
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the reference of {} fails at every setting{}", task.name, why));
}

}  // namespace

Result<RecordedProgram> RecordProgram(const assay::Candidate& program, const std::string& task_name,
                                      const Common& common, const Compile& compile,
                                      Events& events) {
  if (task_name.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is a Python program, and its kernels are known only when it is "
                            "called",
                            program.path.filename().string()),
                "give a task with --task: cupel calls the program with its arguments");
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(Target{.task = task_name}, common));
  TRY_ASSIGN(auto session, Session::Create(common, compile, events));
  events.Show(Progress{"recording the program"});
  TRY_ASSIGN(const Call call, FirstCall(*session, task, common));
  assay::Question question;
  question.task = &task;
  question.direction = kForward;
  TRY_ASSIGN(const auto tracer,
             assay::OpenTracer(program, question, session->parts(), EntropySeed()));
  TRY_ASSIGN(auto outcome,
             tracer->Record(std::string(task::Name(kForward)), call.arguments.args, *call.setting));
  RecordedProgram recorded;
  recorded.setting = call.setting->id;
  recorded.code = tracer->code();
  if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
    recorded.refusal = std::move(*refusal);
  } else {
    recorded.notes = std::move(std::get<record::Recording>(outcome).notes);
  }
  return recorded;
}

}  // namespace cupel::app
