// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernel_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace cupel::gpu {
namespace {

constexpr size_t kMostStalls = 3, kMostAdvice = 12;

/// A member, its name in JSON, and the metrics that can provide it. The first available one is
/// used.
struct Fact {
  const char* key;
  std::optional<double> KernelFacts::* member;
  std::array<const char*, 2> metrics;
};
constexpr Fact kFacts[] = {
    {"duration_us", &KernelFacts::duration_us, {"gpu__time_duration.sum"}},
    {"dram_percent",
     &KernelFacts::dram_percent,
     {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
      "dram__throughput.avg.pct_of_peak_sustained_elapsed"}},
    {"l2_percent", &KernelFacts::l2_percent, {"lts__throughput.avg.pct_of_peak_sustained_elapsed"}},
    {"l1_percent",
     &KernelFacts::l1_percent,
     {"l1tex__throughput.avg.pct_of_peak_sustained_active",
      "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"}},
    {"compute_percent",
     &KernelFacts::compute_percent,
     {"sm__throughput.avg.pct_of_peak_sustained_elapsed"}},
    {"tensor_percent",
     &KernelFacts::tensor_percent,
     {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
      "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"}},
    {"issue_percent",
     &KernelFacts::issue_percent,
     {"smsp__issue_active.avg.pct_of_peak_sustained_active",
      "sm__inst_issued.avg.pct_of_peak_sustained_active"}},
    {"occupancy_percent",
     &KernelFacts::occupancy_percent,
     {"sm__warps_active.avg.pct_of_peak_sustained_active"}},
    {"possible_occupancy_percent",
     &KernelFacts::possible_occupancy_percent,
     {"sm__maximum_warps_per_active_cycle_pct"}},
    {"waves", &KernelFacts::waves, {"launch__waves_per_multiprocessor"}},
    {"registers", &KernelFacts::registers, {"launch__registers_per_thread"}},
    {"static_shared_bytes",
     &KernelFacts::static_shared_bytes,
     {"launch__shared_mem_per_block_static"}},
    {"dynamic_shared_bytes",
     &KernelFacts::dynamic_shared_bytes,
     {"launch__shared_mem_per_block_dynamic"}},
    {"l1_hit_percent", &KernelFacts::l1_hit_percent, {"l1tex__t_sector_hit_rate.pct"}},
    {"l2_hit_percent", &KernelFacts::l2_hit_percent, {"lts__t_sector_hit_rate.pct"}},
    {"dram_read_bytes", &KernelFacts::dram_read_bytes, {"dram__bytes_read.sum"}},
    {"dram_written_bytes", &KernelFacts::dram_written_bytes, {"dram__bytes_write.sum"}},
    {"sectors_per_load",
     &KernelFacts::sectors_per_load,
     {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"}},
    {"sectors_per_store",
     &KernelFacts::sectors_per_store,
     {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"}},
    {"used_bytes_of_loads",
     &KernelFacts::used_bytes_of_loads,
     {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"}},
    {"used_bytes_of_stores",
     &KernelFacts::used_bytes_of_stores,
     {"smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"}},
    {"bank_conflict_percent", &KernelFacts::bank_conflict_percent, {}},
    {"active_lanes",
     &KernelFacts::active_lanes,
     {"smsp__thread_inst_executed_per_inst_executed.ratio"}},
};

struct Unit {
  const char* name;
  double factor;  // to nanoseconds or bytes
};
// cupel requests base units, but also understands versions of ncu that print other units.
constexpr Unit kUnits[] = {{"us", 1e3},    {"usecond", 1e3}, {"ms", 1e6},    {"msecond", 1e6},
                           {"s", 1e9},     {"second", 1e9},  {"Kbyte", 1e3}, {"Mbyte", 1e6},
                           {"Gbyte", 1e9}, {"KB", 1e3},      {"MB", 1e6},    {"GB", 1e9}};

std::optional<double> Read(const NcuKernel& kernel, const char* name) {
  const auto found = kernel.metrics.find(name);
  if (found == kernel.metrics.end()) return {};
  // Read "Kbyte/block" as "Kbyte".
  const std::string unit = found->second.unit.substr(0, found->second.unit.find('/'));
  for (const Unit& known : kUnits) {
    if (unit == known.name) return found->second.value * known.factor;
  }
  return found->second.value;
}

/// Sets `*to` to factor * above / below, if both metrics exist.
void Divide(const NcuKernel& kernel, const char* above, const char* below, double factor,
            std::optional<double>* to) {
  const auto a = Read(kernel, above), b = Read(kernel, below);
  if (a && b && *b > 0) *to = factor * *a / *b;
}

/// Reads the metric of the busiest tensor core pipe. Names of the pipes differ between GPUs.
void ReadTensorPipes(const NcuKernel& kernel, KernelFacts* facts) {
  if (facts->tensor_percent) return;
  for (const auto& [name, metric] : kernel.metrics) {
    const bool is_pipe = name.starts_with("sm__") && name.find("pipe_tensor") != name.npos &&
                         name.ends_with(".pct_of_peak_sustained_active");
    if (!is_pipe) continue;
    facts->tensor_percent = std::max(facts->tensor_percent.value_or(0), metric.value);
  }
}

void ReadLimits(const NcuKernel& kernel, KernelFacts* facts) {
  constexpr std::pair<const char*, const char*> kLimits[] = {
      {"launch__occupancy_limit_registers", "registers"},
      {"launch__occupancy_limit_shared_mem", "shared memory"},
      {"launch__occupancy_limit_warps", "the block size"},
      {"launch__occupancy_limit_blocks", "the number of blocks an SM holds"},
      {"launch__occupancy_limit_barriers", "barriers"}};
  double least = 0;
  for (const auto& [metric, name] : kLimits) {
    const auto blocks = kernel.Get(metric);
    if (!blocks || *blocks <= 0) continue;
    if (facts->limited_by.empty() || *blocks < least) {
      facts->limited_by.clear();
      least = *blocks;
    }
    if (*blocks == least) facts->limited_by.emplace_back(name);
  }
}

/// The stalls of the metrics "<prefix>REASON<suffix>", each with its share of their sum.
std::vector<Stall> StallsNamed(const NcuKernel& kernel, std::string_view prefix,
                               std::string_view suffix) {
  std::vector<Stall> stalls;
  double all = 0;
  for (const auto& [name, metric] : kernel.metrics) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || metric.value <= 0) continue;
    const std::string reason =
        name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (reason.find("not_issued") != std::string::npos ||
        reason.find_first_of(".:") != std::string::npos) {
      continue;
    }
    all += metric.value;
    if (reason != "selected") stalls.push_back({reason, metric.value});
  }
  for (Stall& stall : stalls) stall.share /= all;
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.share > b.share; });
  if (stalls.size() > kMostStalls) stalls.resize(kMostStalls);
  return stalls;
}

/// Replaces the links in a rule's text by their labels. Links look like
/// "@section:MemoryWorkloadAnalysis:Memory Workload Analysis@" and "@url:Label:https://…@".
std::string WithoutLinks(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == '@' ? text.find('@', at + 1) : std::string::npos;
    const std::string link = close == std::string::npos ? "" : text.substr(at + 1, close - at - 1);
    const size_t first = link.find(':');
    const size_t second = first == std::string::npos ? first : link.find(':', first + 1);
    if (second == std::string::npos || link.find('\n') != std::string::npos) {
      out += text[at++];
      continue;
    }
    out += link.starts_with("url:") ? link.substr(first + 1, second - first - 1)
                                    : link.substr(second + 1);
    at = close + 1;
  }
  return out;
}

std::string OneLine(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!is_space) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::vector<Advice> AdviceOf(const NcuKernel& kernel) {
  std::vector<Advice> all;
  for (const NcuRule& rule : kernel.rules) {
    if (rule.type != "OPT" && rule.type != "WRN") continue;  // other types only state facts
    Advice advice{rule.name, OneLine(WithoutLinks(rule.text)), rule.scope, rule.speedup_percent};
    const bool known = std::any_of(all.begin(), all.end(),
                                   [&](const Advice& other) { return other.text == advice.text; });
    if (!known) all.push_back(std::move(advice));
  }
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) {
    return a.speedup_percent > b.speedup_percent;
  });
  // One rule may repeat its advice for several instructions. Keep its two best ones.
  std::vector<Advice> kept;
  for (Advice& advice : all) {
    const auto same = std::count_if(kept.begin(), kept.end(),
                                    [&](const Advice& other) { return other.rule == advice.rule; });
    if (same < 2 && kept.size() < kMostAdvice) kept.push_back(std::move(advice));
  }
  return kept;
}

}  // namespace

KernelFacts FactsOf(const NcuKernel& kernel) {
  KernelFacts facts;
  facts.kernel = kernel.name;
  facts.grid = kernel.grid;
  facts.block = kernel.block;
  for (const Fact& fact : kFacts) {
    for (const char* metric : fact.metrics) {
      if (metric == nullptr || facts.*fact.member) continue;
      facts.*fact.member = Read(kernel, metric);
    }
  }
  if (facts.duration_us) *facts.duration_us /= 1000;
  Divide(kernel, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 1, &facts.sectors_per_load);
  Divide(kernel, "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 1, &facts.sectors_per_store);
  Divide(kernel, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
         "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 100, &facts.bank_conflict_percent);
  // Better if available: counted by instruction, without waits for a port that is busy otherwise.
  Divide(kernel, "derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared",
         100, &facts.bank_conflict_percent);
  ReadTensorPipes(kernel, &facts);
  ReadLimits(kernel, &facts);
  facts.stalls =
      StallsNamed(kernel, "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio");
  if (facts.stalls.empty()) {  // the report has samples instead of counts
    facts.stalls = StallsNamed(kernel, "smsp__pcsamp_warps_issue_stalled_", "");
  }
  facts.advice = AdviceOf(kernel);
  return facts;
}

const char* MeaningOfStall(const std::string& reason) {
  constexpr std::pair<std::string_view, const char*> kMeanings[] = {
      {"long_scoreboard", "global or local memory"},
      {"short_scoreboard", "shared memory or special functions"},
      {"barrier", "other warps at a barrier"},
      {"membar", "a memory fence"},
      {"wait", "a fixed latency of its own instruction"},
      {"math_pipe_throttle", "an arithmetic pipe that is full"},
      {"mio_throttle", "the queue of shared memory and special functions"},
      {"lg_throttle", "the queue of global and local memory"},
      {"tex_throttle", "the texture queue"},
      {"not_selected", "its turn: other warps are ready, too"},
      {"no_instruction", "its instructions to be fetched"},
      {"no_instructions", "its instructions to be fetched"},
      {"branch_resolving", "a branch's target"},
      {"dispatch_stall", "the dispatcher"},
      {"drain", "its last stores"},
      {"imc_miss", "constants that were not cached"},
      {"gmma", "the tensor cores' asynchronous products"},
      {"warpgroup_arrive", "its warp group"},
      {"sleeping", "its own sleep"},
      {"misc", "other things"}};
  for (const auto& [name, meaning] : kMeanings) {
    if (reason == name) return meaning;
  }
  return "";
}

Json ToJson(const KernelFacts& facts) {
  Json json{{"kernel", facts.kernel},
            {"grid", {facts.grid.x, facts.grid.y, facts.grid.z}},
            {"block", {facts.block.x, facts.block.y, facts.block.z}}};
  for (const Fact& fact : kFacts) {
    if (facts.*fact.member) json[fact.key] = *(facts.*fact.member);
  }
  json["limited_by"] = facts.limited_by;
  Json stalls = Json::array(), advice = Json::array();
  for (const Stall& stall : facts.stalls) {
    stalls.push_back({{"reason", stall.reason}, {"share", stall.share}});
  }
  for (const Advice& item : facts.advice) {
    Json one{{"rule", item.rule}, {"text", item.text}};
    if (item.speedup_percent >= 0) {
      one["speedup_percent"] = item.speedup_percent;
      one["scope"] = item.scope;
    }
    advice.push_back(std::move(one));
  }
  json["stalls"] = std::move(stalls);
  json["advice"] = std::move(advice);
  return json;
}

}  // namespace cupel::gpu
