// Tested by bench_text_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "judge/verdict_text.h"
#include "stats/robust.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

using records::SettingTimes;
using records::Timing;

std::string Microseconds(double us) {
  if (us < 10) return fmt::format("{:.2f} us", us);
  if (us < 1000) return fmt::format("{:.1f} us", us);
  return fmt::format("{:.3f} ms", us / 1e3);
}

/// Half the width of the interval, in percent of the estimate.
std::string PlusMinus(const stats::Interval& interval) {
  if (interval.confidence < 0.95) return "?";
  return fmt::format("{:.1f} %", 50 * (interval.high - interval.low) / interval.estimate);
}

/// How many times as fast as `b` kernel `a` is.
std::string Speedup(const SettingTimes& setting, const std::string& a, const std::string& b) {
  for (const records::TimeComparison& comparison : setting.comparisons) {
    if (comparison.a != a || comparison.b != b) continue;
    const double times = 1 / comparison.compared.ratio.estimate;
    const char* sign = comparison.compared.difference == stats::Difference::kNone ? " =" : "";
    return fmt::format("{:.2f} x{}", times, sign);
  }
  return "";
}

std::vector<std::string> BaselineNames(const records::Bench& report) {
  std::vector<std::string> names;
  for (const SettingTimes& setting : report.settings) {
    for (const Timing& timing : setting.timings) {
      const bool known = std::find(names.begin(), names.end(), timing.name) != names.end();
      if (timing.is_baseline && !timing.samples.cold.empty() && !known) {
        names.push_back(timing.name);
      }
    }
  }
  return names;
}

std::string SettingText(const SettingTimes& setting, const std::vector<std::string>& baselines) {
  std::vector<term::Column> columns{{"", term::Align::kLeft},
                                    {"cold", term::Align::kRight},
                                    {"+-", term::Align::kRight},
                                    {"warm", term::Align::kRight},
                                    {"host", term::Align::kRight}};
  for (const std::string& name : baselines) columns.push_back({"vs " + name, term::Align::kRight});
  columns.push_back({"roofline", term::Align::kRight});
  term::Table table(columns);
  for (const Timing& timing : setting.timings) {
    if (timing.samples.cold.empty() || timing.refused) continue;
    std::vector<std::string> cells{timing.name, Microseconds(timing.median.estimate),
                                   PlusMinus(timing.median), Microseconds(timing.warm_us),
                                   timing.host_us ? Microseconds(*timing.host_us) : "-"};
    for (const std::string& name : baselines) cells.push_back(Speedup(setting, timing.name, name));
    cells.push_back(fmt::format("{:.0f} %", 100 * timing.roofline));
    table.Add(std::move(cells));
  }
  std::string text = table.Render(0, "  ");
  if (setting.flops > 0) {
    text += fmt::format("  roofline: of memory and {}\n", records::Name(setting.unit));
  }
  return text;
}

std::string KernelComparisons(const SettingTimes& setting) {
  std::string text;
  for (const records::TimeComparison& comparison : setting.comparisons) {
    const Timing* b = setting.Find(comparison.b);
    if (b == nullptr || b->is_baseline) continue;
    const stats::Interval& ratio = comparison.compared.ratio;
    text +=
        fmt::format("  {} vs {}: {}, time ratio {:.4f} [{:.4f}, {:.4f}]\n", Printable(comparison.a),
                    Printable(comparison.b), stats::Name(comparison.compared.difference),
                    ratio.estimate, ratio.low, ratio.high);
  }
  return text;
}

std::string Remarks(const SettingTimes& setting) {
  std::string text;
  for (const Timing& timing : setting.timings) {
    const std::string name = Printable(timing.name);
    if (timing.refused) {
      text += fmt::format("  {}: {}: {}\n", name, timing.refused->code,
                          Printable(timing.refused->message));
    }
    for (const std::string& oddity : timing.oddities) {
      text += fmt::format("  {}: {}\n", name, Printable(oddity));
    }
    if (timing.operators_us && timing.warm_us > 0) {
      text += fmt::format("  {}: PyTorch's operators take {:.0f} % of the time ({} of {}, warm)\n",
                          name, 100 * *timing.operators_us / timing.warm_us,
                          Microseconds(*timing.operators_us), Microseconds(timing.warm_us));
    }
    if (timing.energy) {
      text += fmt::format("  {}: {:.4g} mJ per call at {:.0f} W\n", name,
                          1e3 * timing.energy->joules, timing.energy->watts);
    }
  }
  const records::GpuState& state = setting.after;
  if (state.sm_mhz > 0) {
    std::string slowed;
    for (const std::string& reason : state.throttled_by) slowed += ", slowed by " + reason;
    text += fmt::format(
        "  GPU: {} MHz, {} C, {:.0f} W{}; {} input sets; clock overhead {:.2f} us\n", state.sm_mhz,
        state.temperature_c, state.power_w, slowed, setting.sets, setting.overhead_us);
  }
  return text;
}

std::string Date(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[16] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string CachedBaselinesText(const records::Bench& report, const std::string& setting) {
  std::string text;
  for (const records::RememberedBaseline& item : report.remembered_baselines) {
    if (item.setting != setting) continue;
    text += fmt::format("  {} took {} on {} (cached); to measure it now, use --baselines\n",
                        item.name, Microseconds(item.us), Date(item.taken_at));
  }
  return text;
}

/// For each kernel and baseline: the geometric mean of the speed-ups at the settings where both
/// were timed.
std::string Means(const records::Bench& report, const std::vector<std::string>& baselines) {
  std::string text;
  for (const records::BenchedKernel& kernel : report.kernels) {
    for (const std::string& baseline : baselines) {
      std::vector<double> speedups;
      for (const SettingTimes& setting : report.settings) {
        for (const records::TimeComparison& comparison : setting.comparisons) {
          if (comparison.a != kernel.name || comparison.b != baseline) continue;
          speedups.push_back(1 / comparison.compared.ratio.estimate);
        }
      }
      if (speedups.size() < 2) continue;
      text += fmt::format("{}: {:.2f} x as fast as {} (geometric mean over {} settings)\n",
                          Printable(kernel.name), stats::GeometricMean(speedups), baseline,
                          speedups.size());
    }
  }
  return text;
}

}  // namespace

std::string BenchText(const records::Bench& report, const BenchTextOptions& options) {
  std::string text;
  for (const records::BenchedKernel& kernel : report.kernels) {
    if (kernel.verdict.decision == records::Decision::kAccepted) {
      if (!kernel.verdict.declared.empty()) {
        text += fmt::format("{}: {}\n", Printable(kernel.name), Printable(kernel.verdict.declared));
      }
      continue;
    }
    judge::TextOptions verdict;
    verdict.colour = options.colour;
    text += judge::VerdictText(kernel.verdict, verdict) + "\n";
  }
  const std::vector<std::string> baselines = BaselineNames(report);
  if (!report.settings.empty()) {
    text += fmt::format("{} {} on {}{}{}\n", Printable(report.task), task::Name(report.direction),
                        Printable(report.gpu), report.torch.empty() ? "" : ", PyTorch ",
                        Printable(report.torch));
  }
  for (const SettingTimes& setting : report.settings) {
    text += fmt::format("{} ({})\n", setting.id, Printable(setting.description));
    if (!setting.note.empty()) text += fmt::format("  {}\n", Printable(setting.note));
    text += SettingText(setting, baselines) + KernelComparisons(setting) + Remarks(setting);
    text += CachedBaselinesText(report, setting.id);
  }
  text += Means(report, baselines);
  return text;
}

}  // namespace cupel::cli
