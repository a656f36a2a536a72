// The results of filtering tasks, as data and as JSON (docs/formats/filter.md).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "app/tasks/task_filter.h"
#include "base/version.h"

namespace cupel::app {
namespace {

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json ToJson(const oracle::QualityCheck& check) {
  return Json{{"check", check.name},
              {"cupel", Name(check.status)},
              {"published", check.published ? Json(*check.published) : Json()},
              {"measured", check.measured},
              {"reason", check.reason}};
}

Json ToJson(const oracle::OutputMeasures& output) {
  Json axes = Json::array();
  for (const auto& axis : output.axes) {
    axes.push_back(Json{{"axis", axis.axis}, {"size", axis.size}, {"std", axis.std}});
  }
  return Json{{"name", output.name},
              {"dtype", output.dtype},
              {"shape", output.shape},
              {"finite", output.finite},
              {"lowest", output.lowest},
              {"highest", output.highest},
              {"scale", output.scale},
              {"seeds_std", OrNull(output.seeds_std)},
              {"inputs_std", OrNull(output.inputs_std)},
              {"weights_std", OrNull(output.weights_std)},
              {"axes", std::move(axes)},
              {"constant", output.constant},
              {"equals", output.equals.empty() ? Json() : Json(output.equals)}};
}

Json ToJson(const oracle::ArgumentMeasures& argument) {
  Json idle = Json::array();
  for (const auto& part : argument.idle) {
    idle.push_back(Json{{"axis", part.axis}, {"from", part.from}, {"to", part.to}});
  }
  return Json{{"name", argument.name},
              {"shape", argument.shape},
              {"is_weight", argument.is_weight},
              {"fixed", argument.fixed},
              {"matters", argument.matters ? Json(*argument.matters) : Json()},
              {"written", argument.written},
              {"idle", std::move(idle)}};
}

Json ToJson(const oracle::OperationMeasures& operation) {
  return Json{{"operation", operation.name}, {"file", operation.file},
              {"line", operation.line},      {"text", operation.text},
              {"module", operation.module},  {"calls", operation.calls},
              {"how", Name(operation.how)},  {"only_for", operation.only_for}};
}

Json ToJson(const FilteredSetting& filtered);
Json ToJson(const FilteredTask& task);

template <typename T>
Json List(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

Json ToJson(const FilteredSetting& filtered) {
  Json json{{"direction", Name(filtered.direction)},
            {"setting", filtered.setting.id},
            {"kind", Name(filtered.setting.kind)},
            {"description", filtered.setting.Describe()},
            {"verdict", Name(filtered.verdict)},
            {"message", filtered.message},
            {"published", oracle::IsFlaggedAsPublished(filtered.checks)},
            {"checks", List(filtered.checks)}};
  if (!filtered.measures) return json;
  const oracle::TaskMeasures& measures = *filtered.measures;
  json["outputs"] = List(measures.outputs);
  json["arguments"] = List(measures.arguments);
  json["operations"] = Json{{"total", measures.operations ? Json(*measures.operations) : Json()},
                            {"tried", measures.operations_tried},
                            {"redundant", List(measures.redundant)}};
  json["unfinished"] = measures.unfinished;
  json["warnings"] = measures.warnings;
  json["torch"] = measures.torch_version;
  json["seconds"] = measures.seconds;
  return json;
}

Json ToJson(const FilteredTask& task) {
  return Json{{"task", task.name},
              {"path", task.path},
              {"verdict", Name(task.verdict())},
              {"message", task.message},
              {"settings", List(task.settings)}};
}

Json CountsJson(const FilterReport& report) {
  int64_t by_verdict[3] = {};
  for (const FilteredTask& task : report.tasks) ++by_verdict[static_cast<int>(task.verdict())];
  Json checks = Json::object();
  for (const CheckCount& count : CountChecks(report)) {
    checks[count.check] = Json{{"cupel", count.cupel},
                               {"published", count.has_published ? Json(count.published) : Json()}};
  }
  return Json{{"tasks", report.tasks.size()},
              {"clean", by_verdict[static_cast<int>(FilterVerdict::kClean)]},
              {"flagged", by_verdict[static_cast<int>(FilterVerdict::kFlagged)]},
              {"not_examined", by_verdict[static_cast<int>(FilterVerdict::kNotExamined)]},
              {"checks", std::move(checks)}};
}

}  // namespace

const char* Name(FilterVerdict verdict) {
  switch (verdict) {
    case FilterVerdict::kClean:
      return "clean";
    case FilterVerdict::kFlagged:
      return "flagged";
    case FilterVerdict::kNotExamined:
      return "not examined";
  }
  return "?";
}

FilterVerdict FilteredTask::verdict() const {
  const auto any = [this](FilterVerdict verdict) {
    return std::any_of(settings.begin(), settings.end(), [verdict](const FilteredSetting& setting) {
      return setting.verdict == verdict;
    });
  };
  if (any(FilterVerdict::kFlagged)) return FilterVerdict::kFlagged;
  if (settings.empty() || any(FilterVerdict::kNotExamined)) return FilterVerdict::kNotExamined;
  return FilterVerdict::kClean;
}

std::vector<CheckCount> CountChecks(const FilterReport& report) {
  std::vector<CheckCount> counts;
  for (const FilteredTask& task : report.tasks) {
    for (const FilteredSetting& filtered : task.settings) {
      for (const oracle::QualityCheck& check : filtered.checks) {
        const bool known = std::any_of(counts.begin(), counts.end(), [&check](const auto& count) {
          return count.check == check.name;
        });
        if (!known) counts.push_back({check.name});
      }
    }
  }
  for (CheckCount& count : counts) {
    for (const FilteredTask& task : report.tasks) {
      bool by_cupel = false, as_published = false;
      for (const FilteredSetting& filtered : task.settings) {
        for (const oracle::QualityCheck& check : filtered.checks) {
          if (check.name != count.check) continue;
          by_cupel = by_cupel || check.status == oracle::CheckStatus::kFlagged;
          as_published = as_published || check.published.value_or(false);
          count.has_published = count.has_published || check.published.has_value();
        }
      }
      count.cupel += by_cupel ? 1 : 0;
      count.published += as_published ? 1 : 0;
    }
  }
  return counts;
}

Json ToJson(const FilterReport& report) {
  return Json{
      {"schema", "cupel.filter/1"},
      {"cupel", kVersion},
      {"seeds", report.seeds},
      {"seconds", report.seconds},
      {"thresholds",
       {{"published", oracle::kPublishedThreshold}, {"relative", oracle::kRelativeThreshold}}},
      {"interrupted", report.interrupted},
      {"counts", CountsJson(report)},
      {"tasks", List(report.tasks)}};
}

}  // namespace cupel::app
