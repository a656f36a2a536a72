// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

using records::LaunchCounters;

constexpr size_t kDetailed = 3;  // launches that are described in words
constexpr size_t kMostRows = 40;

std::string MixText(const LaunchCounters& launch) {
  std::vector<std::pair<uint64_t, size_t>> classes;
  uint64_t all = 0;
  for (size_t i = 0; i < launch.mix.size(); ++i) {
    classes.emplace_back(launch.mix[i], i);
    all += launch.mix[i];
  }
  std::sort(classes.rbegin(), classes.rend());
  std::string text;
  for (size_t i = 0; i < 4 && all > 0; ++i) {
    const double share = static_cast<double>(classes[i].first) / static_cast<double>(all);
    if (share < 0.03) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        records::Name(static_cast<records::InstructionClass>(classes[i].second)),
                        Percent(share));
  }
  return text;
}

std::string OverallTable(const records::Counters& counters) {
  using term::Align;
  term::Table table({{"kernel", Align::kLeft},
                     {"estimate", Align::kRight},
                     {"bound", Align::kLeft},
                     {"occupancy", Align::kRight},
                     {"lanes", Align::kRight},
                     {"used bytes", Align::kRight},
                     {"wavefronts", Align::kRight},
                     {"instructions", Align::kLeft}});
  const auto ratio = [](uint64_t part, uint64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  for (size_t i = 0; i < std::min(kMostRows, counters.launches.size()); ++i) {
    const LaunchCounters& launch = counters.launches[i];
    const records::WorkCounts& w = launch.work;
    table.Add({ShortName(launch.kernel), fmt::format("{:.3g} us", launch.estimated_us),
               launch.bounds.empty() ? "-" : launch.bounds[0].first, Percent(launch.occupancy),
               w.warp_instructions == 0
                   ? "-"
                   : fmt::format("{:.3g}", ratio(w.lane_instructions, w.warp_instructions)),
               w.sectors() == 0 ? "-" : Percent(ratio(w.touched_bytes, 32 * w.sectors())),
               w.shared_ideal_wavefronts == 0
                   ? "-"
                   : fmt::format("{:.2g}x", ratio(w.shared_wavefronts, w.shared_ideal_wavefronts)),
               MixText(launch)});
  }
  std::string out = table.Render(0, "  ");
  if (counters.launches.size() > kMostRows) {
    out += fmt::format("  … and {} more launches\n", counters.launches.size() - kMostRows);
  }
  return out;
}

}  // namespace

std::string ProfileText(const records::Counters& counters, const device::Description& device,
                        const SourceText& source) {
  std::vector<const LaunchCounters*> slowest;
  slowest.reserve(counters.launches.size());
  for (const LaunchCounters& launch : counters.launches) slowest.push_back(&launch);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const auto* a, const auto* b) { return a->estimated_us > b->estimated_us; });
  if (slowest.size() > kDetailed) slowest.resize(kDetailed);
  std::string out;
  double launches_us = 0;
  for (const LaunchCounters& launch : counters.launches) launches_us += launch.estimated_us;
  if (launches_us < 0.95 * counters.estimated_us) {
    out = fmt::format("{:.4g} us are copies, fills and library calls, which are not profiled\n\n",
                      counters.estimated_us - launches_us);
  }
  for (const LaunchCounters* launch : slowest) out += LaunchText(*launch, device, source);
  return out + OverallTable(counters);
}

}  // namespace cupel::cli
