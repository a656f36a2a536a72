// Writes a comparison as JSON and as text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "report/suite/compare.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::report {
namespace {

constexpr Change kChanges[] = {Change::kBroken,      Change::kSlower, Change::kFaster,
                               Change::kFixed,       Change::kNew,    Change::kGone,
                               Change::kNotCompared, Change::kSame};

Json SettingJson(const SettingChange& setting) {
  Json json{{"id", setting.id}, {"change", Name(setting.change)}};
  if (setting.ratio) {
    json["ratio"] = {{"estimate", setting.ratio->estimate}};
    if (!setting.estimate) {
      json["ratio"]["low"] = setting.ratio->low;
      json["ratio"]["high"] = setting.ratio->high;
      json["ratio"]["confidence"] = setting.ratio->confidence;
    }
    json["of_estimates"] = setting.estimate;
  }
  if (setting.p) json["p"] = *setting.p;
  if (!setting.note.empty()) json["note"] = setting.note;
  return json;
}

std::string RatioText(const SettingChange& setting) {
  if (!setting.ratio) return "";
  if (setting.estimate) return fmt::format("{:.3f} (estimates)", setting.ratio->estimate);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", setting.ratio->estimate, setting.ratio->low,
                     setting.ratio->high);
}

/// Adds a row for each changed setting, or one row for the item if there are none.
void AddRows(const ItemChange& item, term::Table& table) {
  const std::string change = Name(item.change);
  bool has_rows = false;
  for (const SettingChange& setting : item.settings) {
    if (setting.change == Change::kSame || setting.change == Change::kNotCompared) continue;
    has_rows = true;
    table.Add({Name(setting.change), item.task, item.direction, item.kernel, setting.id,
               RatioText(setting), setting.note.empty() ? item.note : setting.note});
  }
  if (has_rows) return;
  std::string note = item.note;
  if (note.empty() && item.before != item.after && !item.before.empty() && !item.after.empty()) {
    note = item.before + ", then " + item.after;
  }
  table.Add({change, item.task, item.direction, item.kernel, "", "", note});
}

}  // namespace

Json ToJson(const Comparison& comparison) {
  Json counts = Json::object();
  for (const Change change : kChanges) counts[Name(change)] = comparison.Count(change);
  Json items = Json::array();
  for (const ItemChange& item : comparison.items) {
    Json settings = Json::array();
    for (const SettingChange& setting : item.settings) settings.push_back(SettingJson(setting));
    items.push_back({{"id", item.id},
                     {"task", item.task},
                     {"direction", item.direction},
                     {"kernel", item.kernel},
                     {"change", Name(item.change)},
                     {"before", item.before},
                     {"after", item.after},
                     {"note", item.note},
                     {"settings", std::move(settings)}});
  }
  return {{"schema", "cupel.suite-comparison/1"},
          {"worse", comparison.worse()},
          {"counts", std::move(counts)},
          {"margin", comparison.margin},
          {"baseline_drift", comparison.baseline_drift},
          {"baseline_pairs", comparison.baseline_pairs},
          {"tests", comparison.tests},
          {"notes", comparison.notes},
          {"items", std::move(items)}};
}

std::string CompareText(const Comparison& comparison, int width) {
  term::Table table({{"", term::Align::kLeft},
                     {"task", term::Align::kLeft},
                     {"direction", term::Align::kLeft},
                     {"kernel", term::Align::kLeft},
                     {"setting", term::Align::kLeft},
                     {"B over A", term::Align::kRight},
                     {"", term::Align::kLeft}});
  std::string counts;
  for (const Change change : kChanges) {
    const size_t count = comparison.Count(change);
    if (count == 0) continue;
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, Name(change));
    if (change == Change::kSame) continue;
    for (const ItemChange& item : comparison.items) {
      if (item.change == change) AddRows(item, table);
    }
  }
  std::string text = table.empty() ? "" : table.Render(width);
  text += (counts.empty() ? "nothing to compare" : counts) + "\n";
  if (comparison.tests > 0) {
    text += fmt::format("{} times compared; changes above {:.1f} % are reported", comparison.tests,
                        100 * comparison.margin);
    text += comparison.baseline_pairs > 0
                ? fmt::format(
                      " (PyTorch itself changed by {:.1f} % between the runs), p < 0.01 by "
                      "Mann-Whitney and Holm\n",
                      100 * comparison.baseline_drift)
                : ", p < 0.01 by Mann-Whitney and Holm\n";
  }
  const bool estimates =
      std::any_of(comparison.items.begin(), comparison.items.end(), [](const ItemChange& item) {
        return std::any_of(item.settings.begin(), item.settings.end(),
                           [](const SettingChange& setting) { return setting.estimate; });
      });
  if (estimates) text += "ratios marked (estimates) are from the emulator, not measurements\n";
  for (const std::string& note : comparison.notes) text += "note: " + Printable(note) + "\n";
  return text;
}

}  // namespace cupel::report
