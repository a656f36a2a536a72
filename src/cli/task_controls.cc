// `cupel task controls`: checks that the judge rejects wrong answers at each setting of a task.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "app/session.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/controls.h"
#include "os/process.h"
#include "report/table.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

constexpr int kCases = 3;  // the later ones test the answers for another seed

struct SettingControls {
  const task::Setting* setting = nullptr;
  std::string no_reference;  // why there are no controls
  std::vector<judge::Control> controls;
};

Result<SettingControls> TryAt(oracle::Oracle& oracle, const assay::Question& question,
                              const task::Setting& setting) {
  SettingControls result;
  result.setting = &setting;
  TRY_ASSIGN(auto cases, oracle.Open(*question.task, question.direction, setting, kCases,
                                     question.seed, question.fresh_cases));
  judge::Controls controls;
  for (int i = 0; i < kCases; ++i) {
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
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

std::string DistanceText(const judge::Control& control) {
  if (!control.skipped.empty()) return "-";
  if (!std::isfinite(control.distance)) return "not finite or not exact";
  return fmt::format("{:.3g} x", control.distance);
}

std::string TextOf(const SettingControls& result) {
  const task::Setting& setting = *result.setting;
  std::string text =
      fmt::format("{} ({}){}\n", setting.id, report::Printable(setting.Describe()),
                  setting.derived.empty() ? "" : " derived: " + report::Printable(setting.derived));
  if (!result.no_reference.empty()) {
    return text + fmt::format("  no reference: {}\n", report::Printable(result.no_reference));
  }
  report::Table table({{"control", report::Align::kLeft},
                       {"output", report::Align::kRight},
                       {"error / allowed", report::Align::kRight},
                       {"", report::Align::kLeft}});
  for (const judge::Control& control : result.controls) {
    table.Add({control.name, std::to_string(control.output), DistanceText(control),
               control.Passes()          ? "PASSES: this setting cannot detect wrong answers"
               : control.skipped.empty() ? "rejected"
                                         : "skipped: " + control.skipped});
  }
  return text + table.Render(0, "  ");
}

Json ToJson(const SettingControls& result) {
  Json list = Json::array();
  for (const judge::Control& control : result.controls) list.push_back(judge::ToJson(control));
  return {{"id", result.setting->id},
          {"kind", task::Name(result.setting->kind)},
          {"description", result.setting->Describe()},
          {"derived", result.setting->derived},
          {"no_reference", result.no_reference},
          {"can_judge", judge::PassingText(result.controls).empty()},
          {"controls", std::move(list)}};
}

}  // namespace

/// Returns 0 if every setting whose reference runs can detect wrong answers, otherwise 1.
Result<int> RunTaskControls(const TaskCommand& command) {
  app::Target target;
  target.task = command.task;
  target.backward = command.backward;
  target.settings = command.settings;
  target.full_size = command.full_size;
  TRY_ASSIGN(const task::Task task, LoadTarget(target, command.common));
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, app::Compile{}, view));
  const assay::Question question = QuestionOf(task, target, command.common);
  const auto settings = assay::Chosen(question);
  if (settings.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has no settings of the requested kind", task.name),
                "choose another --settings value");
  }
  bool all_judge = true;
  Json list = Json::array();
  for (const task::Setting* setting : settings) {
    view.Show(assay::Progress{setting->id, static_cast<int>(list.size()),
                              static_cast<int>(settings.size())});
    TRY_ASSIGN(const SettingControls result, TryAt(session->oracle(), question, *setting));
    view.End();
    fmt::print("{}", TextOf(result));
    list.push_back(ToJson(result));
    all_judge = all_judge && judge::PassingText(result.controls).empty();
  }
  TRY(WriteJson(command.show.json, Json{{"schema", "cupel.controls/1"},
                                        {"task", task.name},
                                        {"direction", task::Name(question.direction)},
                                        {"settings", std::move(list)}}));
  return all_judge ? 0 : 1;
}

}  // namespace cupel::cli
