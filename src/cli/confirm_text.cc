// SPDX-License-Identifier: Apache-2.0
#include "cli/confirm_text.h"

#include <fmt/format.h>

#include "app/confirm/confirm.h"
#include "base/text.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

constexpr const char* kReferences[] = {"eager", "compile"};

std::string Text(const Json& json) {
  return Printable(json.is_string() ? json.get<std::string>() : DumpJson(json));
}

std::string Cell(const Json& ways, const char* way) {
  if (!ways.contains(way) || !ways[way].contains("median_us")) return "-";
  return fmt::format("{:.2f} ({:.2f})", ways[way]["median_us"].get<double>(),
                     ways[way]["mean_us"].get<double>());
}

/// Why figures are missing. Repeated causes are listed once.
std::string Gaps(const char* name, const Json& ways) {
  std::string text, last;
  if (ways.contains("failure")) return fmt::format("  {}: {}\n", name, Text(ways["failure"]));
  for (const char* way : app::kConfirmWays) {
    if (!ways.contains(way) || !ways[way].contains("failure")) continue;
    const std::string why = Text(ways[way]["failure"]);
    if (why != last) text += fmt::format("  {}, {}: {}\n", name, way, why);
    last = why;
  }
  return text;
}

std::string SettingText(const Json& setting) {
  const Json& kernel = setting["kernel"];
  const bool right = kernel["right"].get<bool>();
  std::string text =
      fmt::format("{} ({}): {}\n", Text(setting["id"]), Text(setting["description"]),
                  right ? "results are correct before and after timing" : "NOT CORRECT");
  for (const Json& reason : kernel["reasons"]) {
    text += fmt::format("  {}: {} {}\n", Text(reason["code"]), Text(reason["message"]),
                        Text(reason["where"]));
  }
  term::Table table({{"us, median (mean)"},
                     {"CUDA events", term::Align::kRight},
                     {"torch benchmark", term::Align::kRight},
                     {"do_bench (cold L2)", term::Align::kRight}});
  std::string gaps;
  const auto add = [&](const char* name, const Json& ways) {
    table.Add({name, Cell(ways, app::kConfirmWays[0]), Cell(ways, app::kConfirmWays[1]),
               Cell(ways, app::kConfirmWays[2])});
    gaps += Gaps(name, ways);
  };
  add("kernel", kernel["ways"]);
  for (const char* kind : kReferences) {
    if (setting.contains(kind)) add(kind, setting[kind]);
  }
  return text + table.Render(0, "  ") + gaps;
}

}  // namespace

std::string ConfirmText(const Json& record) {
  std::string text =
      fmt::format("{} {} on {}, PyTorch {}, tf32 off\n{}\n{}\n", Text(record["task"]),
                  Text(record["direction"]), Text(record["gpu"]), Text(record["torch"]),
                  Text(record["caveat"]), Text(record["sandbox"]["level"]));
  for (const Json& part : record["sandbox"]["missing"]) {
    text += fmt::format("  not in force: {}\n", Text(part));
  }
  if (const auto failure = record["build"]["failure"].get<std::string>(); !failure.empty()) {
    text += "does not build as a PyTorch extension:\n";
    for (const std::string_view line : SplitLines(failure)) {
      text += fmt::format("  {}\n", Printable(line));
    }
  }
  for (const Json& setting : record["settings"]) text += SettingText(setting);
  return text;
}

}  // namespace cupel::cli
