// SPDX-License-Identifier: Apache-2.0
#include "app/profile/gpu_kernel_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/demangle.h"
#include "base/text.h"
#include "term/text.h"

namespace cupel::app {
namespace {

using gpu::KernelFacts;

constexpr size_t kMostAdviceItems = 4, kLinesOfAdvice = 2;
constexpr size_t kMostPlaces = 2;
constexpr double kBusy = 60;  // a unit at this percentage of its peak or more is the bottleneck

std::string Of100(double percent) { return fmt::format("{:.0f} %", percent); }

/// Lists the facts that have a value, separated by commas.
std::string Phrases(std::initializer_list<std::pair<const char*, std::optional<double>>> facts) {
  std::string text;
  for (const auto& [name, percent] : facts) {
    if (!percent) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, Of100(*percent));
  }
  return text;
}

std::string Sentence(const Lines& parts) { return fmt::format("  {}", fmt::join(parts, "; ")); }

void AddBound(const KernelFacts& facts, Lines* lines) {
  const std::pair<const char*, std::optional<double>> peaks[] = {
      {"DRAM bandwidth", facts.dram_percent},
      {"L2 bandwidth", facts.l2_percent},
      {"L1 and shared memory", facts.l1_percent},
      {"the SM's pipes", facts.compute_percent}};
  const char* name = nullptr;
  double most = -1;
  for (const auto& [peak, percent] : peaks) {
    if (percent && *percent > most) std::tie(name, most) = std::tuple(peak, *percent);
  }
  if (name == nullptr) return;
  lines->push_back(
      most >= kBusy ? fmt::format("  bottleneck: {}, {} of the peak", name, Of100(most))
                    : fmt::format("  bottleneck: latency or too little work; the busiest unit is "
                                  "at {} of its peak ({})",
                                  Of100(most), name));
  std::string busy = "  of the peak: " + Phrases({{"DRAM", facts.dram_percent},
                                                  {"L2", facts.l2_percent},
                                                  {"L1", facts.l1_percent},
                                                  {"SM", facts.compute_percent},
                                                  {"tensor cores", facts.tensor_percent}});
  if (facts.issue_percent) {
    busy += fmt::format("; instructions issue in {} of the cycles", Of100(*facts.issue_percent));
  }
  lines->push_back(std::move(busy));
}

void AddOccupancy(const GpuLaunch& launch, Lines* lines) {
  const KernelFacts& facts = launch.facts;
  Lines parts;
  if (facts.occupancy_percent) {
    std::string text = "occupancy " + Of100(*facts.occupancy_percent);
    if (facts.possible_occupancy_percent) {
      text += fmt::format(" of {} possible", Of100(*facts.possible_occupancy_percent));
      if (*facts.possible_occupancy_percent < 99.5 && !facts.limited_by.empty()) {
        text += fmt::format(" (limited by {})", fmt::join(facts.limited_by, ", "));
      }
    }
    parts.push_back(std::move(text));
  }
  if (facts.waves) parts.push_back(fmt::format("{:.3g} waves of blocks", *facts.waves));
  if (!parts.empty()) lines->push_back(Sentence(parts));
  parts.clear();
  if (facts.registers) {
    parts.push_back(fmt::format("{:.0f} registers", *facts.registers));
  } else if (launch.has_ptxas) {
    parts.push_back(fmt::format("{} registers", launch.ptxas.registers));
  }
  if (facts.static_shared_bytes || facts.dynamic_shared_bytes) {
    parts.push_back(fmt::format("shared memory {} static, {} dynamic",
                                Bytes(facts.static_shared_bytes.value_or(0)),
                                Bytes(facts.dynamic_shared_bytes.value_or(0))));
  } else if (launch.has_ptxas) {
    parts.push_back(fmt::format("shared memory {} static", Bytes(launch.ptxas.static_shared)));
  }
  if (launch.has_ptxas) {
    const auto& [stores, loads] = std::tie(launch.ptxas.spill_stores, launch.ptxas.spill_loads);
    parts.push_back(stores + loads == 0 ? std::string("no spills")
                                        : fmt::format("spills: {} B stored, {} B loaded per thread",
                                                      stores, loads));
  }
  if (!parts.empty()) lines->push_back(Sentence(parts));
  for (const std::string& remark : launch.ptxas.remarks) lines->push_back("ptxas: " + remark);
}

void AddMemory(const KernelFacts& facts, Lines* lines) {
  Lines parts;
  if (facts.dram_read_bytes || facts.dram_written_bytes) {
    parts.push_back(fmt::format("DRAM {} read, {} written",
                                Bytes(facts.dram_read_bytes.value_or(0)),
                                Bytes(facts.dram_written_bytes.value_or(0))));
  }
  const std::string hits = Phrases({{"L1", facts.l1_hit_percent}, {"L2", facts.l2_hit_percent}});
  if (!hits.empty()) parts.push_back("cache hits: " + hits);
  if (!parts.empty()) lines->push_back(Sentence(parts));
  parts.clear();
  std::string sectors;
  if (facts.sectors_per_load) sectors = fmt::format("{:.3g} per load", *facts.sectors_per_load);
  if (facts.sectors_per_store && *facts.sectors_per_store > 0) {
    sectors +=
        fmt::format("{}{:.3g} per store", sectors.empty() ? "" : ", ", *facts.sectors_per_store);
  }
  if (!sectors.empty()) {
    parts.push_back("global memory sectors: " + sectors + " (4 are enough for 4 bytes per lane)");
  }
  std::string used;
  if (facts.used_bytes_of_loads) used = fmt::format("{:.3g} loaded", *facts.used_bytes_of_loads);
  if (facts.used_bytes_of_stores && *facts.used_bytes_of_stores > 0) {
    used += fmt::format("{}{:.3g} stored", used.empty() ? "" : ", ", *facts.used_bytes_of_stores);
  }
  if (!used.empty()) parts.push_back("bytes used of 32 in a sector: " + used);
  if (facts.bank_conflict_percent) {
    parts.push_back("bank conflicts: " + Of100(*facts.bank_conflict_percent) +
                    " of the wavefronts");
  }
  if (facts.active_lanes)
    parts.push_back(fmt::format("{:.3g} of 32 lanes active", *facts.active_lanes));
  if (parts.empty()) return;
  const Lines wrapped = Wrap(fmt::format("{}", fmt::join(parts, "; ")), "  ", 2);
  lines->insert(lines->end(), wrapped.begin(), wrapped.end());
}

void AddStalls(const KernelFacts& facts, Lines* lines) {
  std::string text;
  for (const gpu::Stall& stall : facts.stalls) {
    const std::string meaning = gpu::MeaningOfStall(stall.reason);
    text += fmt::format("{}{} {}", text.empty() ? "warps wait for " : ", ",
                        meaning.empty() ? stall.reason : meaning, judge::Percent(stall.share));
  }
  const Lines wrapped = Wrap(text, "  ", 2);
  lines->insert(lines->end(), wrapped.begin(), wrapped.end());
}

void AddAdvice(const KernelFacts& facts, Lines* lines) {
  if (facts.advice.empty()) return;
  lines->push_back("  Nsight Compute advises:");
  for (size_t i = 0; i < std::min(facts.advice.size(), kMostAdviceItems); ++i) {
    const gpu::Advice& advice = facts.advice[i];
    const std::string gain = advice.speedup_percent <= 0
                                 ? ""
                                 : fmt::format("[{}{}] ", Of100(advice.speedup_percent),
                                               advice.scope == "global" ? "" : " locally");
    Lines wrapped = Wrap(gain + advice.text, "      ", kLinesOfAdvice);
    if (wrapped.empty()) continue;
    wrapped[0].replace(0, 6, "    - ");
    lines->insert(lines->end(), wrapped.begin(), wrapped.end());
  }
}

void AddEmulated(const GpuLaunch& launch, const GpuProfile& profile,
                 const judge::SourceText& source, Lines* lines) {
  const auto index = static_cast<size_t>(launch.launch);
  if (launch.launch < 0 || index >= profile.emulated.launches.size()) return;
  const records::LaunchCounters& counted = profile.emulated.launches[index];
  if (counted.kernel != Demangle(launch.facts.kernel)) return;
  const records::WorkCounts& work = counted.work;
  std::string text = "  the emulator counts: ";
  if (!counted.bounds.empty()) {
    text += fmt::format("bound by {}, ", judge::Describe(counted.bounds[0].first).name);
  }
  text += fmt::format("{} in sectors, of which {} are used",
                      Bytes(32.0 * static_cast<double>(work.sectors())),
                      Bytes(static_cast<double>(work.touched_bytes)));
  lines->push_back(std::move(text));
  std::vector<judge::Remark> remarks = judge::FindBottleneckLines(counted);
  if (remarks.size() > kMostPlaces) remarks.resize(kMostPlaces);
  for (judge::Remark& waste : judge::Wastes(counted, kMostPlaces))
    remarks.push_back(std::move(waste));
  std::set<std::pair<std::string, int>> quoted;  // to quote each line once
  for (const judge::Remark& remark : remarks) {
    const bool is_new = quoted.emplace(remark.file, remark.line).second;
    const std::string page = judge::RemarkText(remark, is_new ? source : judge::SourceText());
    for (const std::string_view line : SplitLines(page)) lines->emplace_back(line);
  }
}

}  // namespace

std::string Bytes(double bytes) {
  constexpr const char* kNames[] = {"B", "KB", "MB", "GB", "TB"};
  size_t i = 0;
  while (bytes >= 1000 && i + 1 < std::size(kNames)) bytes /= 1000, ++i;
  return i == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kNames[i]);
}

Lines Wrap(const std::string& text, const std::string& indent, size_t most) {
  const int width = judge::kProfileWidth - Width(indent);
  Lines lines;
  std::istringstream words(Printable(text));
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && Width(line) + 1 + Width(word) > width) {
      if (lines.size() + 1 == most) {
        lines.push_back(indent + Fit(fmt::format("{} {} …", line, word), width));
        return lines;
      }
      lines.push_back(indent + line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(indent + Fit(line, width));
  return lines;
}

Lines KernelLines(const GpuLaunch& launch, const GpuProfile& profile,
                  const judge::SourceText& source) {
  Lines lines;
  AddBound(launch.facts, &lines);
  AddOccupancy(launch, &lines);
  AddMemory(launch.facts, &lines);
  AddStalls(launch.facts, &lines);
  AddAdvice(launch.facts, &lines);
  AddEmulated(launch, profile, source, &lines);
  return lines;
}

}  // namespace cupel::app
