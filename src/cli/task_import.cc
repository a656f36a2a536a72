// `cupel task import`.
// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

constexpr size_t kMaxReason = 110;

std::string SizesText(const Json& sizes) {
  std::string text;
  for (const auto& [key, value] : sizes.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, DumpJson(value));
  }
  return text;
}

/// The members of `sizes` that differ from those of `before`.
Json Changed(const Json& before, const Json& sizes) {
  Json changed = Json::object();
  for (const auto& [key, value] : sizes.items()) {
    if (!before.contains(key) || before[key] != value) changed[key] = value;
  }
  return changed;
}

void Print(const app::ImportedProblem& imported) {
  fmt::print("{}: {}\n", Printable(imported.name), Printable(imported.folder));
  fmt::print("  {} argument{}; forward_fn {}\n", imported.arguments.size(),
             imported.arguments.size() == 1 ? "" : "s",
             imported.functional ? "uses plain functions" : "calls the module");
  if (!imported.sizes.empty()) {
    fmt::print("  sizes that can be changed: {}\n", Printable(SizesText(imported.sizes)));
  }
  if (!imported.reduced.empty()) {
    fmt::print("  smaller sizes for the emulator: {}\n",
               Printable(SizesText(Changed(imported.sizes, imported.reduced))));
  }
  if (!imported.compared.empty()) {
    fmt::print("  same results as the file, bit for bit, at {}\n", imported.compared);
  }
  for (const std::string& note : imported.notes) {
    fmt::print("  note: {}\n", Printable(note));
  }
}

/// Shortens `text` to fit into the table. The report has the whole text.
std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxReason) return text;
  size_t end = kMaxReason;  // moved to a character boundary of UTF-8
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

/// One line for each problem that is not a clean task, and counts.
std::string ImportSummary(const app::ImportReport& report) {
  term::Table table({{"problem"}, {"imported"}, {"oracle"}, {"filter"}, {"why"}});
  for (const app::ImportedProblem& p : report.problems) {
    if (p.filter.verdict == "clean") continue;
    const std::string& why = !p.refusal.empty()          ? p.refusal
                             : p.oracle.verdict != "ran" ? p.oracle.message
                                                         : p.filter.message;
    table.Add({p.name, p.refusal.empty() ? "yes" : "no", p.oracle.verdict, p.filter.verdict,
               Shortened(why)});
  }
  const app::ImportCounts c = CountsOf(report);
  return fmt::format(
      "{}{} problems: {} imported, {} ran on the CPU ({} of them at reduced sizes), {} passed the "
      "filters, {} flagged{}\n",
      table.empty() ? "" : table.Render() + "\n", c.problems, c.imported, c.ran, c.reduced, c.clean,
      c.flagged, report.interrupted ? "; interrupted" : "");
}

/// The exit status of an import without a report.
int StatusOf(const app::ImportReport& report) {
  const auto& problems = report.problems;
  const auto refused =
      std::count_if(problems.begin(), problems.end(),
                    [](const app::ImportedProblem& problem) { return !problem.refusal.empty(); });
  if (refused == 0) return 0;
  if (refused < static_cast<std::ptrdiff_t>(problems.size())) return 1;
  // If all folders exist already, nothing was imported: wrong usage.
  const bool all_exist =
      std::all_of(problems.begin(), problems.end(),
                  [](const app::ImportedProblem& problem) { return problem.already_there; });
  return all_exist ? 2 : 3;
}

}  // namespace

Result<int> Run(const ImportCommand& command) {
  ProgressView view(command.show.quiet);
  size_t imported = 0;
  const auto print = [&](const app::ImportedProblem& problem) {
    if (!problem.refusal.empty()) {
      fmt::print("{}: {}\n", Printable(problem.name), Printable(problem.refusal));
      return;
    }
    ++imported;
    if (!command.show.quiet) Print(problem);
  };
  TRY_ASSIGN(const app::ImportReport report, app::ImportTasks(command, view, print));
  view.End();
  if (!command.report.empty()) {
    fmt::print("{}", ImportSummary(report));
  } else if (report.problems.size() > 1) {
    fmt::print("{} of {} problems imported\n", imported, report.problems.size());
  }
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  TRY(report.status);
  return command.report.empty() ? StatusOf(report) : 0;
}

}  // namespace cupel::cli
