// SPDX-License-Identifier: Apache-2.0
#include "report/suite/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "term/table.h"
#include "term/text.h"

namespace cupel::report {
namespace {

constexpr size_t kMostRefusals = 50;

/// "9 of 10": passed settings of those that the task lists.
std::string Passed(const SuiteResult& item) {
  size_t all = 0, passed = 0;
  for (const SuiteSetting& setting : item.settings) {
    if (!setting.derived.empty()) continue;
    ++all;
    passed += setting.passed() ? 1 : 0;
  }
  return all == 0 ? "" : fmt::format("{} of {}", passed, all);
}

std::string Speedup(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f} x", *ratio) : "";
}

std::string Percent(size_t part, size_t all) {
  if (all == 0) return "";
  return fmt::format(" ({:.0f} %)", 100 * static_cast<double>(part) / static_cast<double>(all));
}

std::string TimeTitle(const Suite& suite) { return suite.estimates() ? "estimate" : "time"; }

std::string Time(const SuiteResult& item) {
  if (item.is_unfinished) return "not timed yet";
  const auto mean = MeanTime(item);
  return mean ? Microseconds(*mean) : "";
}

bool HasEnergy(const Suite& suite) {
  return std::ranges::any_of(suite.items,
                             [](const SuiteResult& item) { return MeanEnergy(item).has_value(); });
}

std::string Millijoules(const std::optional<double>& energy) {
  return energy ? fmt::format("{:.3g} mJ", *energy) : "";
}

/// Escapes a text for Markdown.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : Printable(text)) {
    if (std::string_view("\\`*_{}[]<>|#~!&").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::vector<std::string> Counts(const Suite& suite, const SuiteScores& scores) {
  std::vector<std::string> lines = {
      fmt::format("problems solved: {} of {}{}", scores.correct_problems, scores.problems.size(),
                  Percent(scores.correct_problems, scores.problems.size())),
      fmt::format("kernels accepted: {} of {}{}", scores.accepted_kernels, scores.kernels,
                  Percent(scores.accepted_kernels, scores.kernels)),
      fmt::format("settings passed: {} of {} judged{}", scores.passed_settings, scores.settings,
                  Percent(scores.passed_settings, scores.settings))};
  int64_t reduced = 0;
  for (const SuiteResult& item : suite.items) {
    reduced += std::count_if(item.settings.begin(), item.settings.end(),
                             [](const SuiteSetting& setting) { return !setting.reduced.empty(); });
  }
  if (reduced > 0) {
    lines.push_back(fmt::format(
        "{} of them at smaller sizes, which the tasks define for the emulator (results.csv)",
        reduced));
  }
  return lines;
}

std::vector<std::string> Speeds(const SuiteScores& scores) {
  std::vector<std::string> lines;
  for (const auto& [name, score] : scores.baselines) {
    std::string fast;
    for (size_t i = 0; i < kFastP.size(); ++i) {
      fast += fmt::format("{}fast_{:g} {:.2f}", i == 0 ? "" : ", ", kFastP[i], score.fast[i]);
    }
    lines.push_back(
        fmt::format("against {}: {:.2f} x over {} problems, {:.2f} x over {} settings "
                    "(geometric means); {}",
                    name, score.over_problems.value_or(0), score.timed_problems,
                    score.over_settings.value_or(0), score.timed_settings, fast));
  }
  if (!scores.why_no_times.empty()) lines.push_back(scores.why_no_times);
  return lines;
}

/// A cell of CSV.
std::string Cell(std::string_view text) {
  std::string cell = Printable(text);
  if (!cell.empty() && std::string_view("=+-@").find(cell[0]) != std::string_view::npos) {
    cell.insert(cell.begin(), '\'');
  }
  if (cell.find_first_of(",\"'") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string Cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

std::string IntervalCells(const stats::Interval* interval) {
  if (interval == nullptr) return ",,";
  return fmt::format("{:.6g},{:.6g},{:.6g}", interval->estimate, interval->low, interval->high);
}

std::string SettingCells(const SuiteSetting& setting) {
  std::string row =
      fmt::format("{},{},{},{},{},{},{},{}", Cell(setting.id), Cell(setting.kind),
                  Cell(setting.description), Cell(setting.derived), Cell(setting.reduced),
                  Cell(setting.status), Cell(setting.over_limit), Cell(setting.estimate_us));
  row += "," + IntervalCells(setting.time ? &setting.time->us : nullptr);
  for (const char* name : kBaselines) {
    const auto baseline = setting.baselines.find(name);
    row += ",";
    if (baseline != setting.baselines.end()) row += Cell(baseline->second.us.estimate);
    const auto ratio = setting.speedups.find(name);
    row += "," + IntervalCells(ratio == setting.speedups.end() ? nullptr : &ratio->second);
  }
  row += "," + Cell(setting.best_baseline) + "," + Cell(setting.roofline) + ",";
  if (setting.time) row += Cell(setting.time->millijoules);
  const auto best = setting.baselines.find(kBest);
  row += ",";
  return best == setting.baselines.end() ? row : row + Cell(best->second.millijoules);
}

}  // namespace

std::string Microseconds(double us) {
  if (us < 1e3) return fmt::format("{:.3g} us", us);
  if (us < 1e6) return fmt::format("{:.3g} ms", us / 1e3);
  return fmt::format("{:.3g} s", us / 1e6);
}

std::string SuiteCsv(const Suite& suite) {
  std::string csv =
      "task,direction,kernel,decision,code,reason,build_seconds,setting,kind,sizes,derived,reduced,"
      "status,over_limit,estimate_us,median_us,median_low_us,median_high_us,eager_us,"
      "speedup_eager,speedup_eager_low,speedup_eager_high,compile_us,speedup_compile,"
      "speedup_compile_low,speedup_compile_high,best_us,speedup_best,speedup_best_low,"
      "speedup_best_high,best_baseline,roofline,millijoules,best_millijoules\r\n";
  for (const SuiteResult& item : suite.items) {
    const std::string row = fmt::format(
        "{},{},{},{},{},{},{},", Cell(item.task), Cell(item.direction), Cell(item.kernel),
        Cell(item.decision), Cell(item.code), Cell(item.reason), Cell(item.build_seconds));
    if (item.settings.empty()) csv += row + SettingCells({}) + "\r\n";
    for (const SuiteSetting& setting : item.settings) csv += row + SettingCells(setting) + "\r\n";
  }
  for (const Problem& problem : suite.without_kernel) {
    csv += fmt::format("{},{},,no kernel,,,,", Cell(problem.first), Cell(problem.second)) +
           SettingCells({}) + "\r\n";
  }
  return csv;
}

std::string SuiteMarkdown(const Suite& suite, const SuiteScores& scores) {
  std::string text = fmt::format("# Suite on {}\n\ncupel {}, seed {}, {}.\n\n",
                                 Escaped(suite.device.empty() ? suite.engine : suite.device),
                                 Escaped(suite.cupel), Escaped(suite.seed), Escaped(suite.status));
  for (const std::string& line : Counts(suite, scores)) text += "- " + line + "\n";
  for (const std::string& line : Speeds(scores)) text += "- " + Escaped(line) + "\n";
  text +=
      fmt::format("\n| task | direction | kernel | decision | settings | {} |", TimeTitle(suite));
  for (const auto& [name, score] : scores.baselines) text += fmt::format(" vs {} |", name);
  const bool has_energy = HasEnergy(suite);
  if (has_energy) text += " energy | energy of best |";
  const size_t more = scores.baselines.size() + (has_energy ? 2 : 0);
  text += "\n|---|---|---|---|---|---:|";
  for (size_t i = 0; i < more; ++i) text += "---:|";
  text += "\n";
  for (const SuiteResult& item : suite.items) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} |", Escaped(item.task), Escaped(item.direction),
                    Escaped(item.kernel), Escaped(item.decision), Passed(item), Time(item));
    for (const auto& [name, score] : scores.baselines) {
      text += fmt::format(" {} |", Speedup(MeanSpeedup(item, name)));
    }
    if (has_energy) {
      text += fmt::format(" {} | {} |", Millijoules(MeanEnergy(item)),
                          Millijoules(MeanEnergyOfBest(item)));
    }
    text += "\n";
  }
  for (const Problem& problem : suite.without_kernel) {
    text += fmt::format("| {} | {} | | no kernel | | |", Escaped(problem.first),
                        Escaped(problem.second));
    for (size_t i = 0; i < more; ++i) text += " |";
    text += "\n";
  }
  text +=
      "\nTimes and speed-ups are geometric means over the judged multi settings; if there are "
      "none, over the single ones; otherwise over all.\n";
  bool first = true;
  for (const SuiteResult& item : suite.items) {
    if (item.accepted() || item.reason.empty()) continue;
    if (std::exchange(first, false)) text += "\n## Not accepted\n\n";
    text +=
        fmt::format("- {}: {}: {}\n", Escaped(item.id), Escaped(item.code), Escaped(item.reason));
  }
  return text;
}

std::string SuiteText(const Suite& suite, const SuiteScores& scores, int width) {
  std::vector<term::Column> columns = {
      {"task", term::Align::kLeft},      {"direction", term::Align::kLeft},
      {"kernel", term::Align::kLeft},    {"decision", term::Align::kLeft},
      {"settings", term::Align::kRight}, {TimeTitle(suite), term::Align::kRight}};
  for (const auto& [name, score] : scores.baselines) {
    columns.push_back({"vs " + name, term::Align::kRight});
  }
  const bool has_energy = HasEnergy(suite);
  if (has_energy) {
    columns.push_back({"energy", term::Align::kRight});
    columns.push_back({"energy of best", term::Align::kRight});
  }
  term::Table table(columns);
  for (const SuiteResult& item : suite.items) {
    std::vector<std::string> cells = {item.task,     item.direction, item.kernel,
                                      item.decision, Passed(item),   Time(item)};
    for (const auto& [name, score] : scores.baselines) {
      cells.push_back(Speedup(MeanSpeedup(item, name)));
    }
    if (has_energy) {
      cells.push_back(Millijoules(MeanEnergy(item)));
      cells.push_back(Millijoules(MeanEnergyOfBest(item)));
    }
    table.Add(std::move(cells));
  }
  for (const Problem& problem : suite.without_kernel) {
    table.Add({problem.first, problem.second, "", "no kernel"});
  }
  std::string text = table.Render(width);
  size_t shown = 0;
  for (const SuiteResult& item : suite.items) {
    if (item.accepted() || item.reason.empty()) continue;
    if (++shown > kMostRefusals) {
      text += "  results.md lists the others\n";
      break;
    }
    text += fmt::format("{}: {}: {}\n", Printable(item.id), Printable(item.code),
                        Printable(item.reason));
  }
  for (const std::string& line : Counts(suite, scores)) text += line + "\n";
  for (const std::string& line : Speeds(scores)) text += line + "\n";
  return text;
}

}  // namespace cupel::report
