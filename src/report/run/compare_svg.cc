// Tested by compare_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "report/run/compare_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "report/loose_json.h"
#include "report/svg_parts.h"

namespace cupel::report {
namespace {

constexpr double kPlotWidth = 760, kLeastHeight = 400, kPlotLeft = 50, kPlotRight = 230,
                 kPlotTop = 52, kPlotBottom = 50;
constexpr double kLabel = 15;       // least distance of two names
constexpr size_t kLongestRun = 22;  // characters
constexpr size_t kColors = 8;
constexpr double kGains[] = {1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500, 1000};

/// Colours that people with colour blindness tell apart (Okabe and Ito), the yellow darkened.
constexpr const char* kCurveStyle = R"(
path { fill: none; stroke-width: 2; }
.c0 { stroke: #0072b2; } .c1 { stroke: #d55e00; } .c2 { stroke: #009e73; } .c3 { stroke: #cc79a7; }
.c4 { stroke: #56b4e9; } .c5 { stroke: #e69f00; } .c6 { stroke: #8a8a8a; } .c7 { stroke: #b8a800; }
.leader { stroke-width: 1; stroke-dasharray: 2 2; }
)";

struct Curve {
  std::string name;
  std::vector<std::pair<int64_t, double>> gains;  // by kernels judged
  double end = 0, label = 0;                      // y of the last gain, and of the name
};

std::vector<Curve> CurvesOf(const RunComparison& comparison) {
  std::vector<Curve> curves;
  std::map<std::string, int> seen;
  for (const ComparedRun& run : comparison.runs) {
    if (run.by_judged.empty()) continue;
    std::filesystem::path folder = run.name;
    if (!folder.has_filename()) folder = folder.parent_path();
    std::string name = Bounded(folder.filename().string(), kLongestRun);
    if (const int before = seen[name]++; before > 0) name += fmt::format(" ({})", before + 1);
    curves.push_back({std::move(name), run.by_judged});
  }
  return curves;
}

class Axes {
 public:
  explicit Axes(const std::vector<Curve>& curves)
      : height_(std::max(kLeastHeight,
                         kPlotTop + kPlotBottom + kLabel * static_cast<double>(curves.size()))) {
    for (const Curve& curve : curves) {
      judged_ = std::max(judged_, static_cast<double>(curve.gains.back().first));
      for (const auto& [judged, gain] : curve.gains) gain_ = std::max(gain_, gain * 1.05);
    }
  }
  double X(double judged) const {
    return kPlotLeft + (kPlotWidth - kPlotLeft - kPlotRight) * judged / judged_;
  }
  double Y(double gain) const {
    return bottom() - (bottom() - kPlotTop) * std::log(gain) / std::log(gain_);
  }
  double judged() const { return judged_; }
  double height() const { return height_; }
  double bottom() const { return height_ - kPlotBottom; }
  bool Shows(double gain) const { return gain <= gain_; }

 private:
  double height_ = kLeastHeight, judged_ = 1, gain_ = 1.5;
};

std::string Grid(const Axes& axes) {
  std::string text;
  for (const double tick : kGains) {
    if (!axes.Shows(tick)) continue;
    const double y = axes.Y(tick);
    text += Line(tick == 1 ? "one" : "grid", kPlotLeft, y, kPlotWidth - kPlotRight, y);
    text += TextAt(kPlotLeft - 6, y + 4, "class=\"small\" text-anchor=\"end\"",
                   fmt::format("{}×", tick));
  }
  const int step = std::max(1, static_cast<int>(std::ceil(axes.judged() / 10)));
  for (int judged = 0; judged <= axes.judged(); judged += step) {
    text += TextAt(axes.X(judged), axes.bottom() + 18, "class=\"small\" text-anchor=\"middle\"",
                   std::to_string(judged));
  }
  return text + TextAt((kPlotLeft + kPlotWidth - kPlotRight) / 2, axes.height() - 12,
                       "class=\"small\" text-anchor=\"middle\"",
                       "kernels judged, the start included");
}

/// Moves names apart, in the order of the curves' ends.
void PlaceNames(std::vector<Curve>& curves, double bottom) {
  std::vector<Curve*> order;
  order.reserve(curves.size());
  for (Curve& curve : curves) order.push_back(&curve);
  std::ranges::stable_sort(order, {}, [](const Curve* curve) { return curve->end; });
  double lowest = kPlotTop;
  for (Curve* curve : order) {
    curve->label = std::max(curve->end, lowest);
    lowest = curve->label + kLabel;
  }
  // Names that were pushed below the picture move up again.
  double limit = bottom;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    (*it)->label = std::min((*it)->label, limit);
    limit = (*it)->label - kLabel;
  }
}

std::string Drawn(const Curve& curve, const Axes& axes, size_t color) {
  std::string path;
  double last = 0;
  for (const auto& [judged, gain] : curve.gains) {
    const double x = axes.X(static_cast<double>(judged)), y = axes.Y(std::max(1.0, gain));
    path +=
        path.empty() ? fmt::format("M{:.1f} {:.1f}", x, y) : fmt::format("H{:.1f}V{:.1f}", x, y);
    last = x;
  }
  const std::string kind = fmt::format("c{}", color % kColors);
  const double name = kPlotWidth - kPlotRight + 24;
  return fmt::format("<path class=\"{}\" d=\"{}\"/>\n", kind, path) +
         Line(kind + " leader", last, curve.end, name - 4, curve.label) +
         TextAt(name, curve.label + 4, "",
                fmt::format("{} {:.2f}×", curve.name, curve.gains.back().second));
}

}  // namespace

std::string ComparisonSvg(const RunComparison& comparison) {
  std::vector<Curve> curves = CurvesOf(comparison);
  const Axes axes(curves);
  std::string text = SvgHead(kPlotWidth, axes.height(),
                             "Times as fast as the start, by kernels judged", kCurveStyle);
  if (curves.empty()) {
    return text + TextAt(10, kPlotTop, "class=\"small\"", "no run has an accepted kernel") +
           "</svg>\n";
  }
  for (Curve& curve : curves) curve.end = axes.Y(std::max(1.0, curve.gains.back().second));
  PlaceNames(curves, axes.bottom());
  text += Grid(axes);
  for (size_t i = 0; i < curves.size(); ++i) text += Drawn(curves[i], axes, i);
  return text + "</svg>\n";
}

}  // namespace cupel::report
