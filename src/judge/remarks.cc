// Tested by remarks_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "judge/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace cupel::judge {
namespace {

using records::InstructionClass;
using records::LaunchCounters;
using records::LineCounters;
using records::WorkCounts;

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// How close the named bounds come to the slowest one. If the share is small, waste there has
/// little effect.
double Pressure(const LaunchCounters& launch, std::initializer_list<const char*> names) {
  double most = 0, slowest = 0;
  for (const auto& [name, us] : launch.bounds) {
    slowest = std::max(slowest, us);
    for (const char* wanted : names) {
      if (name == wanted) most = std::max(most, us);
    }
  }
  return slowest > 0 ? most / slowest : 0;
}

std::string StrideText(int64_t stride) {
  if (stride == records::kIrregular) return "lanes' addresses follow no pattern";
  if (stride == 0) return "lanes access the same few bytes";
  return fmt::format("lanes are {} bytes apart", std::abs(stride));
}

class RemarkCollector {
 public:
  explicit RemarkCollector(const LaunchCounters& launch) : launch_(launch) {}

  void AddLine(const LineCounters& line) {
    UnusedSectors(line);
    BankConflicts(line);
    IdleLanes(line);
    Atomics(line);
  }
  void AddLaunch() {
    if (launch_.imbalance > 1.2) {
      Add(nullptr, "imbalance", 1 - 1 / launch_.imbalance,
          fmt::format("the busiest SM has {:.2g} times its share of the work: blocks take "
                      "different times, or there are too few blocks",
                      launch_.imbalance));
    }
    const double mean = Ratio(launch_.warp_instructions,
                              launch_.grid.Count() * ((launch_.block.Count() + 31) / 32));
    const double busiest = Ratio(launch_.critical_warp_instructions, launch_.grid.Count());
    if (mean > 0 && busiest > 1.5 * mean) {
      Add(nullptr, "uneven_warps", Pressure(launch_, {"latency"}) * (1 - mean / busiest),
          fmt::format("a block's busiest warp executes {:.2g} times as many instructions as its "
                      "average warp",
                      busiest / mean));
    }
  }
  std::vector<Remark> Take(size_t most) {
    std::stable_sort(remarks_.begin(), remarks_.end(),
                     [](const Remark& a, const Remark& b) { return a.weight > b.weight; });
    if (remarks_.size() > most) remarks_.resize(most);
    return std::move(remarks_);
  }

 private:
  void Add(const LineCounters* line, const char* code, double weight, std::string message) {
    if (weight < 0.01) return;
    Remark remark;
    remark.code = code;
    remark.weight = weight;
    remark.message = std::move(message);
    if (line != nullptr) {
      remark.file = line->file;
      remark.line = line->line;
    }
    remarks_.push_back(std::move(remark));
  }

  void UnusedSectors(const LineCounters& line) {
    const uint64_t moved = line.work.sectors() * 32;
    if (moved <= line.work.touched_bytes) return;
    const uint64_t unused = moved - line.work.touched_bytes;
    if (Ratio(unused, moved) < 0.2) return;
    Add(&line, "unused_sectors",
        Pressure(launch_, {"dram", "l2", "l1"}) * Ratio(unused, launch_.work.sectors() * 32),
        fmt::format("{:.0f} % of the bytes in the sectors moved here are unused: {}",
                    100 * Ratio(unused, moved), StrideText(line.lane_stride)));
  }

  void BankConflicts(const LineCounters& line) {
    const WorkCounts& w = line.work;
    if (w.shared_wavefronts <= w.shared_ideal_wavefronts) return;
    const uint64_t extra = w.shared_wavefronts - w.shared_ideal_wavefronts;
    if (Ratio(extra, w.shared_wavefronts) < 0.15) return;
    const double ways =
        Ratio(w.shared_wavefronts, std::max<uint64_t>(w.shared_ideal_wavefronts, 1));
    Add(&line, "bank_conflicts",
        Pressure(launch_, {"shared", "latency"}) * Ratio(extra, launch_.work.shared_wavefronts),
        fmt::format("{:.2g}-way bank conflicts: {:.0f} % of the wavefronts are extra", ways,
                    100 * Ratio(extra, w.shared_wavefronts)));
  }

  void IdleLanes(const LineCounters& line) {
    const WorkCounts& w = line.work;
    const double lanes = Ratio(w.lane_instructions, w.warp_instructions);
    if (lanes > 24) return;
    std::string message =
        fmt::format("{:.2g} of 32 lanes are active on average", std::max(lanes, 1.0));
    const double divergent = Ratio(w.divergent_branches, w.branches);
    if (divergent > 0.05) {
      message += fmt::format("; lanes diverge at {:.0f} % of the branches", 100 * divergent);
    }
    Add(&line, "idle_lanes",
        Pressure(launch_, {"issue", "latency", "fp32"}) * (1 - lanes / 32) *
            Ratio(w.warp_instructions, launch_.work.warp_instructions),
        std::move(message));
  }

  void Atomics(const LineCounters& line) {
    const WorkCounts& w = line.work;
    const double turns = Ratio(w.atomic_turns, w.atomic_requests);
    const double share = Ratio(w.atomic_lanes, launch_.work.atomic_lanes);
    const double hot = Ratio(launch_.hottest_atomics, launch_.global_atomics);
    if (turns < 2 && hot < 0.02) return;
    std::string message;
    if (turns >= 2) {
      message = fmt::format("{:.2g} lanes of a warp add to one address, one after another", turns);
    }
    if (hot >= 0.02) {
      message +=
          fmt::format("{}one 128-byte line is the target of {} of the launch's {} atomics",
                      message.empty() ? "" : "; ", launch_.hottest_atomics, launch_.global_atomics);
    }
    Add(&line, "contended_atomics", Pressure(launch_, {"atomics"}) * share, std::move(message));
  }

  const LaunchCounters& launch_;
  std::vector<Remark> remarks_;
};

/// What a line contributes to a bound.
uint64_t Contribution(const std::string& bound, const WorkCounts& w) {
  if (bound == "dram" || bound == "l2") return w.sectors();
  if (bound == "l1") return w.load_lines + w.store_lines;
  if (bound == "shared") return w.shared_wavefronts;
  if (bound == "atomics") return w.atomic_lanes;
  return w.warp_instructions;
}

const char* ContributionName(const std::string& bound) {
  if (bound == "dram" || bound == "l2" || bound == "l1") return "the sectors moved";
  if (bound == "shared") return "the wavefronts";
  if (bound == "atomics") return "the atomics";
  return "the warp instructions";
}

}  // namespace

BoundText Describe(const std::string& bound) {
  static constexpr std::pair<const char*, BoundText> kTexts[] = {
      {"dram",
       {"memory bandwidth",
        "bytes that must cross DRAM. Move fewer: fuse, reuse, use every byte of a sector"}},
      {"l2",
       {"L2 bandwidth",
        "bytes between L2 and the SMs. Reuse more in registers or shared memory; load whole "
        "sectors"}},
      {"l1",
       {"L1 throughput",
        "requests and sectors of the busiest SM. Use wider loads and neighbouring addresses"}},
      {"shared",
       {"shared memory",
        "wavefronts of the busiest SM. Remove bank conflicts, load wider, keep more in registers"}},
      {"issue",
       {"instruction issue",
        "the schedulers of the busiest SM are never idle. Do the same with fewer instructions: "
        "wider loads, unrolling, less index arithmetic"}},
      {"latency",
       {"latency",
        "each warp waits for its own results. More warps, or more independent work in a thread, "
        "would fill the gaps"}},
      {"fp32", {"FP32 arithmetic", "the FP32 lanes of the busiest SM are never idle"}},
      {"fp64",
       {"FP64 arithmetic",
        "double-precision instructions. A literal such as 1.0 without f causes them"}},
      {"integer",
       {"integer arithmetic",
        "the integer lanes of the busiest SM are never idle: indices, comparisons, bits. Move "
        "index "
        "arithmetic out of loops"}},
      {"special",
       {"special functions", "roots, exponentials, divisions or conversions of the busiest SM"}},
      {"tensor", {"tensor cores", "the tensor cores of the busiest SM are never idle"}},
      {"atomics",
       {"atomics",
        "atomics at the L2. Combine within a warp or block first; spread them over addresses"}},
      {"blocks",
       {"block launch", "starting the blocks takes longer than their work. Use fewer blocks"}}};
  for (const auto& [name, text] : kTexts) {
    if (bound == name) return text;
  }
  return {"unknown", ""};
}

std::vector<Remark> FindBottleneckLines(const LaunchCounters& launch) {
  std::vector<Remark> where;
  if (launch.bounds.empty()) return where;
  const std::string& bound = launch.bounds[0].first;
  const uint64_t all = Contribution(bound, launch.work);
  for (const LineCounters& line : launch.lines) {
    const double share = Ratio(Contribution(bound, line.work), all);
    if (share < 0.1) continue;
    where.push_back({"bottleneck", line.file, line.line,
                     fmt::format("{:.0f} % of {}", 100 * share, ContributionName(bound)), share});
  }
  std::stable_sort(where.begin(), where.end(),
                   [](const Remark& a, const Remark& b) { return a.weight > b.weight; });
  if (where.size() > 3) where.resize(3);
  return where;
}

std::vector<Remark> Wastes(const LaunchCounters& launch, size_t most) {
  RemarkCollector collector(launch);
  for (const LineCounters& line : launch.lines) collector.AddLine(line);
  collector.AddLaunch();
  return collector.Take(most);
}

}  // namespace cupel::judge
