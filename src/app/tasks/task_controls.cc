// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_controls.h"

#include <fmt/format.h>

#include <stop_token>
#include <utility>

#include "app/session.h"
#include "records/json.h"

namespace cupel::app {
namespace {

constexpr int kCases = 3;  // the later ones test the answers for another seed

Result<SettingControls> TryAt(oracle::Oracle& oracle, const assay::Question& question,
                              const task::Setting& setting, const std::stop_token& stop) {
  SettingControls result;
  result.setting = &setting;
  TRY_ASSIGN(auto cases, oracle.Open(*question.task, question.direction, setting, kCases,
                                     question.seed, question.fresh_cases));
  judge::Controls controls;
  for (int i = 0; i < kCases; ++i) {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    TRY_ASSIGN(const auto outcome, cases->Next());
    if (!outcome) break;
    if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
      result.no_reference = failure->message;
      break;
    }
    const auto& wanted = std::get<task::Case>(*outcome);
    i == 0 ? controls.TryFirst(wanted) : controls.TryOther(wanted);
  }
  result.controls = controls.Take();
  return result;
}

Json ToJson(const SettingControls& result) {
  Json list = Json::array();
  for (const records::Control& control : result.controls) list.push_back(records::ToJson(control));
  return {{"id", result.setting->id},
          {"kind", task::Name(result.setting->kind)},
          {"description", result.setting->Describe()},
          {"derived", result.setting->derived},
          {"no_reference", result.no_reference},
          {"can_judge", judge::PassingText(result.controls).empty()},
          {"controls", std::move(list)}};
}

}  // namespace

Result<ControlsReport> TryControls(const ControlsOptions& options, Events& events,
                                   const OnControls& tried) {
  Target target;
  target.task = options.task;
  target.backward = options.backward;
  target.settings = options.settings;
  target.full_size = options.full_size;
  TRY_ASSIGN(const task::Task task, LoadTarget(target, options.common));
  TRY_ASSIGN(auto session, Session::Create(options.common, Compile{}, events));
  const assay::Question question = QuestionOf(task, target, options.common);
  const auto settings = assay::Chosen(question);
  if (settings.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has no settings of the requested kind", task.name),
                "choose another --settings value");
  }
  ControlsReport report;
  report.can_judge = true;
  Json list = Json::array();
  for (const task::Setting* setting : settings) {
    events.Show({setting->id, static_cast<int64_t>(list.size()),
                 static_cast<int64_t>(settings.size()), "trials"});
    TRY_ASSIGN(const SettingControls result,
               TryAt(session->oracle(), question, *setting, options.common.stop));
    tried(result);
    list.push_back(ToJson(result));
    report.can_judge = report.can_judge && judge::PassingText(result.controls).empty();
  }
  report.document = Json{{"schema", "cupel.controls/1"},
                         {"task", task.name},
                         {"direction", task::Name(question.direction)},
                         {"settings", std::move(list)}};
  return report;
}

}  // namespace cupel::app
