// A comparison of runs as JSON, as text and as a page.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/page/page.h"
#include "report/page/page_parts.h"
#include "report/run/compare.h"
#include "report/run/document.h"
#include "report/run/text.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::report {
namespace {

constexpr size_t kMostGenerations = 12;

std::optional<double> Whole(std::optional<int64_t> count) {
  return count ? std::optional<double>(static_cast<double>(*count)) : std::nullopt;
}

std::string SpreadText(const std::optional<Spread>& spread, ComparedValue::Form form) {
  if (!spread) return "–";
  if (spread->runs == 1) return Show(spread->median, form);
  return fmt::format("{} [{}, {}]", Show(spread->median, form), Show(spread->low, form),
                     Show(spread->high, form));
}

std::string TitleOf(const ComparedValue& value, const RunComparison& comparison) {
  return value.form == ComparedValue::Form::kNumber ? comparison.best_title : value.title;
}

Json SpreadJson(const std::optional<Spread>& spread) {
  if (!spread) return {};
  return Json{{"median", spread->median},
              {"low", spread->low},
              {"high", spread->high},
              {"runs", spread->runs}};
}

Json RunJson(const ComparedRun& run) {
  Json json{{"run", run.name},
            {"status", run.status},
            {"unit", run.unit},
            {"seed", std::to_string(run.seed)},
            {"candidates", run.candidates},
            {"judged", run.judged},
            {"accepted", run.accepted},
            {"spent", ToJson(run.spent)}};
  if (run.best) json["best"] = *run.best;
  if (run.gain) json["gain"] = *run.gain;
  if (run.over_eager) json["over_eager"] = *run.over_eager;
  if (run.over_compile) json["over_compile"] = *run.over_compile;
  if (run.floor_share) json["floor_share"] = *run.floor_share;
  if (run.best_generation) json["best_generation"] = *run.best_generation;
  if (run.to_best) json["to_best"] = ToJson(*run.to_best);
  json["gain_by_generation"] = run.by_generation;
  json["gain_by_judged"] = run.by_judged;
  return json;
}

/// The gain at the end of a generation. A run that ended earlier keeps its last gain.
std::optional<double> GainAfter(const ComparedRun& run, int generation) {
  std::optional<double> gain;
  for (const auto& [number, value] : run.by_generation) {
    if (number <= generation) gain = value;
  }
  return gain;
}

/// The generations of all runs, reduced to fit a table's width. The last one is always included.
std::vector<int> GenerationsToShow(const RunComparison& comparison) {
  std::set<int> all;
  for (const ComparedRun& run : comparison.runs) {
    for (const auto& [number, gain] : run.by_generation) all.insert(number);
  }
  std::vector<int> numbers(all.begin(), all.end());
  if (numbers.size() <= kMostGenerations) return numbers;
  std::vector<int> shown;
  shown.reserve(kMostGenerations);
  for (size_t i = 0; i < kMostGenerations; ++i) {
    shown.push_back(numbers[i * (numbers.size() - 1) / (kMostGenerations - 1)]);
  }
  return shown;
}

std::string GenerationsText(const RunComparison& comparison) {
  const std::vector<int> generations = GenerationsToShow(comparison);
  std::vector<term::Column> columns{{"gain after generation", term::Align::kLeft}};
  for (const int generation : generations) {
    columns.push_back({std::to_string(generation), term::Align::kRight});
  }
  term::Table table(columns);
  for (const Configuration& configuration : comparison.configurations) {
    std::vector<std::string> cells{configuration.label};
    for (const int generation : generations) {
      const auto spread = comparison.SpreadOf(configuration, [generation](const ComparedRun& run) {
        return GainAfter(run, generation);
      });
      cells.push_back(spread ? Show(spread->median, ComparedValue::Form::kTimes) : "–");
    }
    table.Add(std::move(cells));
  }
  return generations.empty() ? "" : "\n" + table.Render();
}

std::string DifferencesText(const RunComparison& comparison) {
  if (comparison.differences.empty()) return "All runs have the same configuration.\n";
  std::vector<term::Column> columns{{"what differs", term::Align::kLeft}};
  for (const Configuration& configuration : comparison.configurations) {
    columns.push_back({configuration.label, term::Align::kLeft});
  }
  term::Table table(columns);
  for (size_t i = 0; i < comparison.differences.size(); ++i) {
    std::vector<std::string> cells{comparison.differences[i]};
    for (const Configuration& configuration : comparison.configurations) {
      cells.push_back(configuration.values[i].empty() ? "–" : Fit(configuration.values[i], 40));
    }
    table.Add(std::move(cells));
  }
  return table.Render();
}

}  // namespace

const std::vector<ComparedValue>& ComparedValues() {
  using Form = ComparedValue::Form;
  static const std::vector<ComparedValue> values = {
      {"best", "best", Form::kNumber, [](const ComparedRun& run) { return run.best; }},
      {"gain", "gain", Form::kTimes, [](const ComparedRun& run) { return run.gain; }},
      {"over_eager", "over PyTorch, eager", Form::kTimes,
       [](const ComparedRun& run) { return run.over_eager; }},
      {"over_compile", "over torch.compile", Form::kTimes,
       [](const ComparedRun& run) { return run.over_compile; }},
      {"floor_share", "share of the floor's speed", Form::kShare,
       [](const ComparedRun& run) { return run.floor_share; }},
      {"judged", "judged", Form::kCount, [](const ComparedRun& run) { return Whole(run.judged); }},
      {"accepted_share", "accepted", Form::kShare,
       [](const ComparedRun& run) { return run.accepted_share(); }},
      {"judged_to_best", "judged until best", Form::kCount,
       [](const ComparedRun& run) {
         return run.to_best ? Whole(run.to_best->judged) : std::nullopt;
       }},
      {"usd_to_best", "cost until best", Form::kDollars,
       [](const ComparedRun& run) {
         return run.to_best ? std::optional<double>(run.to_best->usd) : std::nullopt;
       }},
      {"usd", "cost", Form::kDollars,
       [](const ComparedRun& run) { return std::optional<double>(run.spent.usd); }},
      {"questions", "questions", Form::kCount,
       [](const ComparedRun& run) { return Whole(run.spent.questions); }},
      {"input_tokens", "tokens in", Form::kCount,
       [](const ComparedRun& run) { return Whole(run.spent.input_tokens); }},
      {"output_tokens", "tokens out", Form::kCount,
       [](const ComparedRun& run) { return Whole(run.spent.output_tokens); }},
      {"charged_tokens", "tokens charged", Form::kCount,
       [](const ComparedRun& run) { return Whole(run.spent.tokens); }},
      {"seconds_to_best", "time until best", Form::kSeconds,
       [](const ComparedRun& run) {
         return run.to_best ? std::optional<double>(run.to_best->seconds) : std::nullopt;
       }},
      {"seconds", "time", Form::kSeconds,
       [](const ComparedRun& run) { return std::optional<double>(run.spent.seconds); }}};
  return values;
}

std::string Show(double value, ComparedValue::Form form) {
  using Form = ComparedValue::Form;
  switch (form) {
    case Form::kNumber:
      return fmt::format("{:.3f}", value);
    case Form::kCount:
      return fmt::format("{:.0f}", value);
    case Form::kShare:
      return fmt::format("{:.0f} %", 100 * value);
    case Form::kDollars:
      return Dollars(value);
    case Form::kSeconds:
      return term::Duration(value);
    case Form::kTimes:
      return fmt::format("{:.2f}x", value);
  }
  return "";
}

Json ToJson(const RunComparison& comparison) {
  Json json{{"schema", "cupel.run-comparison/1"},    {"subject", comparison.subject},
            {"differences", comparison.differences}, {"notes", comparison.notes},
            {"configurations", Json::array()},       {"runs", Json::array()}};
  for (const Configuration& configuration : comparison.configurations) {
    Json one{{"label", configuration.label},
             {"values", configuration.values},
             {"runs", configuration.runs}};
    for (const ComparedValue& value : ComparedValues()) {
      one[value.key] = SpreadJson(comparison.SpreadOf(configuration, value.of));
    }
    json["configurations"].push_back(std::move(one));
  }
  for (const ComparedRun& run : comparison.runs) json["runs"].push_back(RunJson(run));
  return json;
}

std::string ComparisonText(const RunComparison& comparison) {
  std::string text = comparison.subject.empty() ? "" : Printable(comparison.subject) + "\n";
  for (const Configuration& configuration : comparison.configurations) {
    for (const size_t i : configuration.runs) {
      text += fmt::format("{}  {}  (seed {})\n", configuration.label,
                          Printable(comparison.runs[i].name), comparison.runs[i].seed);
    }
  }
  text += "\n" + DifferencesText(comparison) + "\n";
  std::vector<term::Column> columns{{"", term::Align::kLeft}};
  for (const Configuration& configuration : comparison.configurations) {
    columns.push_back({configuration.label, term::Align::kRight});
  }
  term::Table table(columns);
  for (const ComparedValue& value : ComparedValues()) {
    std::vector<std::string> cells{TitleOf(value, comparison)};
    for (const Configuration& configuration : comparison.configurations) {
      cells.push_back(SpreadText(comparison.SpreadOf(configuration, value.of), value.form));
    }
    table.Add(std::move(cells));
  }
  text += table.Render() + GenerationsText(comparison);
  const bool several =
      std::any_of(comparison.configurations.begin(), comparison.configurations.end(),
                  [](const Configuration& c) { return c.runs.size() > 1; });
  if (several) text += "For several runs: the median [smallest, largest].\n";
  for (const std::string& note : comparison.notes) text += Printable(note) + "\n";
  return text;
}

std::string ComparisonHtml(const RunComparison& comparison) {
  Json data = ToJson(comparison);
  Json& columns = data["columns"] = Json::array();
  for (const ComparedValue& value : ComparedValues()) {
    columns.push_back({{"key", value.key}, {"title", TitleOf(value, comparison)}});
  }
  for (size_t c = 0; c < comparison.configurations.size(); ++c) {
    Json& shown = data["configurations"][c]["shown"] = Json::object();
    for (const ComparedValue& value : ComparedValues()) {
      shown[value.key] =
          SpreadText(comparison.SpreadOf(comparison.configurations[c], value.of), value.form);
    }
  }
  return SelfContainedPage("Comparison of runs", fmt::format("{}{}", CommonCss(), RunCss()),
                           ComparisonBodyHtml(), data,
                           fmt::format("{}{}{}", DomJs(), AxesJs(), ComparisonJs()));
}

}  // namespace cupel::report
