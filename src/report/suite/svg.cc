// SPDX-License-Identifier: Apache-2.0
#include "report/suite/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/loose_json.h"
#include "report/svg_parts.h"

namespace cupel::report {
namespace {

constexpr double kWidth = 760, kLeft = 230, kRight = 64;  // left: the names; right: the gains
constexpr size_t kLongestName = 34;                       // characters that fit into kLeft
constexpr double kTop = 74, kRow = 19, kBottom = 14;
constexpr double kTicks[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,   2,
                             5,    10,   20,   50,  100, 200, 500, 1000};

constexpr const char* kStyle = R"(
.gain { stroke: #0969da; stroke-width: 3; }
.loss { stroke: #cf222e; stroke-width: 3; }
.eager { fill: none; stroke: #59636e; stroke-width: 1.5; }
.compile { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  .eager { stroke: #9198a1; }
  .gain { stroke: #4493f8; }
  .loss { stroke: #f85149; }
  .compile { fill: #4493f8; }
}
)";

struct Row {
  std::string name;
  std::map<std::string, double> speedup;  // by baseline; not empty
  double gain = 0;
};

std::vector<Row> RowsOf(const SuiteScores& scores) {
  std::vector<Row> rows;
  for (const ProblemScore& problem : scores.problems) {
    if (!problem.correct || problem.speedup.empty()) continue;
    const auto& [task, direction] = problem.problem;
    const std::string name = direction == "forward" ? task : fmt::format("{} {}", task, direction);
    Row row{Bounded(name, kLongestName), problem.speedup, 0};
    const auto least = std::min_element(row.speedup.begin(), row.speedup.end(),
                                        [](auto& a, auto& b) { return a.second < b.second; });
    const auto best = row.speedup.find(kBest);
    row.gain = best == row.speedup.end() ? least->second : best->second;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.gain > b.gain; });
  return rows;
}

/// The logarithmic x axis of ratios.
class Axis {
 public:
  explicit Axis(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (const auto& [name, ratio] : row.speedup) {
        low_ = std::min(low_, ratio / 1.1);
        high_ = std::max(high_, ratio * 1.1);
      }
    }
  }
  double At(double ratio) const {
    return kLeft + (kWidth - kLeft - kRight) * std::log(ratio / low_) / std::log(high_ / low_);
  }
  bool Shows(double ratio) const { return ratio >= low_ && ratio <= high_; }

 private:
  double low_ = 0.8, high_ = 2;
};

std::string Mark(const std::string& baseline, double x, double y, std::string_view text) {
  return fmt::format(
      "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>\n",
      baseline == "compile" ? "compile" : "eager", x, y, Xml(text));
}

std::string Grid(const Axis& axis, double bottom) {
  std::string text;
  for (const double tick : kTicks) {
    if (!axis.Shows(tick)) continue;
    const double x = axis.At(tick);
    text += Line(tick == 1 ? "one" : "grid", x, kTop - 8, x, bottom);
    text +=
        TextAt(x, kTop - 14, "class=\"small\" text-anchor=\"middle\"", fmt::format("{}×", tick));
  }
  return text;
}

std::string Drawn(const Row& row, const Axis& axis, double y) {
  std::string text = TextAt(kLeft - 10, y + 4, "text-anchor=\"end\"", row.name);
  text += Line(row.gain < 1 ? "loss" : "gain", axis.At(1), y, axis.At(row.gain), y);
  for (const auto& [name, ratio] : row.speedup) {
    if (name == kBest) continue;  // the end of the bar
    text += Mark(name, axis.At(ratio), y,
                 fmt::format("{}: {:.2f} times as fast as {}", row.name, ratio, name));
  }
  return text + TextAt(kWidth - 6, y + 4, "text-anchor=\"end\"", fmt::format("{:.2f}×", row.gain));
}

}  // namespace

std::string SuiteSvg(const Suite& suite, const SuiteScores& scores) {
  const std::vector<Row> rows = RowsOf(scores);
  const double bottom = kTop + kRow * static_cast<double>(std::max<size_t>(1, rows.size()));
  const std::string title = fmt::format(
      "Kernels compared with PyTorch on {}: geometric means of device time", suite.device);
  std::string text = SvgHead(kWidth, bottom + kBottom, title, kStyle);
  if (rows.empty()) {
    const std::string why =
        scores.why_no_times.empty() ? "no accepted kernel has been timed" : scores.why_no_times;
    return text + TextAt(10, kTop, "class=\"small\"", why) + "</svg>\n";
  }
  text +=
      Mark("eager", 16, 38, "eager") + TextAt(26, 42, "class=\"small\"", "times as fast as eager");
  text += Mark("compile", 166, 38, "compile") +
          TextAt(176, 42, "class=\"small\"",
                 "as torch.compile; bar and number: over the fastest baseline of each setting");
  const Axis axis(rows);
  text += Grid(axis, bottom);
  for (size_t i = 0; i < rows.size(); ++i) {
    text += Drawn(rows[i], axis, kTop + kRow * (static_cast<double>(i) + 0.5));
  }
  return text + "</svg>\n";
}

}  // namespace cupel::report
