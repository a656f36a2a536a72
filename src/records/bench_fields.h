// The field lists of a bench and its parts (fields.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string_view>
#include <utility>

#include "records/bench.h"
#include "records/fields.h"
#include "records/verdict_fields.h"

namespace cupel::records {

template <>
struct Names<stats::Difference> {
  static constexpr std::pair<stats::Difference, std::string_view> kAll[] = {
      {stats::Difference::kFaster, "faster"},
      {stats::Difference::kSlower, "slower"},
      {stats::Difference::kNone, "no difference"}};
};

template <>
struct Names<ArithmeticUnit> {
  static constexpr std::pair<ArithmeticUnit, std::string_view> kAll[] = {
      {ArithmeticUnit::kFloat32, "float32 cores"},
      {ArithmeticUnit::kTf32, "tf32 tensor cores"},
      {ArithmeticUnit::kSixteenBit, "16-bit tensor cores"},
      {ArithmeticUnit::kEightBit, "8-bit tensor cores"},
      {ArithmeticUnit::kFloat64, "float64 tensor cores"}};
};

template <>
struct Fields<stats::Interval> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& interval) {
    visit("estimate", interval.estimate, "");
    visit("low", interval.low, "");
    visit("high", interval.high, "");
    visit("confidence", interval.confidence, "");
  }
};

template <>
struct Fields<EnergyUse> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& use) {
    visit("joules", use.joules, "of one warm call, including the idle GPU's share");
    visit("watts", use.watts, "mean power");
    visit("calls", use.calls, "how many were measured");
  }
  static const char* Problem(const EnergyUse& use) {
    const bool possible = std::isfinite(use.joules) && std::isfinite(use.watts) &&
                          use.joules >= 0 && use.watts >= 0 && use.calls > 0;
    return possible ? nullptr : "is not a possible energy";
  }
};

template <>
struct Fields<Ceilings> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& ceilings) {
    visit("gpu", ceilings.gpu, "its name");
    visit("read_bytes", ceilings.read_bytes, "bytes per second from cold memory");
    visit("copy_bytes", ceilings.copy_bytes, "bytes per second, read and written together");
    visit("fp32_flops", ceilings.fp32_flops, "operations per second");
    visit("tf32_flops", ceilings.tf32_flops, "operations per second; 0: not measured");
    visit("bf16_flops", ceilings.bf16_flops, "operations per second; 0: not measured");
    visit("launch_us", ceilings.launch_us, "of a dependent launch in a graph");
    visit.Since("fp64_flops", ceilings.fp64_flops, "operations per second; 0: not measured");
  }
  static const char* Problem(const Ceilings& c) {
    for (const double rate : {c.read_bytes, c.copy_bytes, c.fp32_flops, c.tf32_flops, c.bf16_flops,
                              c.launch_us, c.fp64_flops}) {
      if (!std::isfinite(rate) || rate < 0) return "has a rate that is out of range";
    }
    if (c.read_bytes <= 0 || c.copy_bytes <= 0) return "must have a positive memory bandwidth";
    return nullptr;
  }
};

template <>
struct Fields<Timing> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& timing) {
    visit("name", timing.name, "of the kernel or baseline");
    visit("baseline", timing.is_baseline, "PyTorch's own answer");
    visit.If(timing.refused.has_value(), "refused", timing.refused,
             "why there is no time, or why it does not count: `code`, `message`, `where`");
    visit.If(!timing.oddities.empty(), "oddities", timing.oddities,
             "anything unusual about the time");
    const bool timed = timing.is_timed();
    visit.If(timed, "us", timing.median,
             "the cold median: `estimate`, `low`, `high`, `confidence`");
    visit.If(timed, "spread_us", timing.spread, "scaled median absolute deviation");
    int64_t count = static_cast<int64_t>(timing.samples.cold.size());
    visit.If(timed, "samples", count, "how many");
    visit.If(timed, "samples_us", timing.samples.cold,
             "sample i of all timings was taken side by side");
    visit.If(timed, "warm_us", timing.warm_us, "median on warm caches");
    visit.If(timed && timing.operators_us.has_value(), "operators_us", timing.operators_us,
             "of kernels: the same for the operators of PyTorch in the plan alone");
    visit.If(timed, "host_us", timing.host_us,
             "wall time of a plain call; null: it could not be timed");
    visit.If(timed, "bytes_per_second", timing.bytes_a_second, "that the task requires");
    visit.If(timed, "roofline", timing.roofline,
             "the fastest possible time on this GPU over this time");
    visit.If(timed && timing.flops > 0, "flops", timing.flops, "operations per second, if known");
    visit.If(timed && !timing.how.empty(), "how", timing.how, "of baselines: `graph` or `stream`");
    visit.If(!timing.libraries.empty(), "libraries", timing.libraries,
             "of named baselines: what they use, with versions");
    visit.If(timed && timing.energy.has_value(), "energy", timing.energy,
             "`joules`, `watts`, `calls`: means over the rounds");
    visit.If(timed && !timing.is_baseline, "verified_replays", timing.verified,
             "timed replays whose results were checked");
    visit.If(timed && !timing.is_baseline, "visible_secrets", timing.visible,
             "those whose secret was visible in the results");
  }
};

template <>
struct Fields<TimeComparison> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& one) {
    visit("a", one.a, "name of a timing");
    visit("b", one.b, "name of another");
    visit("ratio", one.compared.ratio, "time of `a` over that of `b`, with its 99 % interval");
    visit("a_is", one.compared.difference, "than `b`");
  }
};

template <>
struct Fields<StageSeconds> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& stages) {
    visit("cases", stages.cases, "");
    visit("prepare", stages.prepare, "");
    visit("timer", stages.timer, "");
    visit("replays", stages.replays, "");
    visit("verify", stages.verify, "");
  }
};

template <>
struct Fields<SettingTimes> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& times) {
    visit("id", times.id, "as in a verdict");
    visit("kind", times.kind, "as in a verdict");
    visit("description", times.description, "as in a verdict");
    visit.If(!times.note.empty(), "note", times.note, "why nothing was timed");
    visit("timings", times.timings, "kernels and baselines, see below");
    visit("comparisons", times.comparisons, "see below");
    visit("input_sets", times.sets, "between which replays rotate");
    visit("clock_overhead_us", times.overhead_us, "already subtracted");
    visit("read_bytes", times.read_bytes, "that the task must read");
    visit("written_bytes", times.written_bytes, "that the task must write");
    visit.If(times.flops > 0, "floating_point_operations", times.flops, "if known");
    visit.If(times.flops > 0, "unit", times.unit, "that the task may use for these operations");
    visit("floor_us", times.floor_us, "the time to read at the measured rate");
    visit("before", times.before, "the GPU");
    visit("after", times.after, "the GPU");
    visit("torch", times.torch_version, "PyTorch's version");
    visit("seconds", times.seconds, "that all this took");
    visit("stage_seconds", times.stages,
          "parts of `seconds`: `cases` from the oracle, `prepare`, `timer` (tensors to the GPU), "
          "`replays`, `verify`");
    visit.If(!times.worker.empty(), "worker", times.worker, "in a suite: the worker that timed it");
  }
};

template <>
struct Fields<BenchedKernel> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& kernel) {
    visit("name", kernel.name, "");
    visit("verdict", kernel.verdict, "");
  }
};

template <>
struct Fields<RememberedBaseline> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& baseline) {
    visit("setting", baseline.setting, "");
    visit("name", baseline.name, "");
    visit("us", baseline.us, "");
    visit("taken_at", baseline.taken_at, "");
  }
};

template <>
struct Fields<MeanRatio> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& mean) {
    visit("a", mean.a, "");
    visit("b", mean.b, "");
    visit("ratio", mean.ratio, "");
    visit("settings", mean.settings, "");
  }
};

template <>
struct Fields<Bench> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& bench) {
    visit.Derived("schema", [] { return std::string(kBenchSchema); }, "text", "`cupel.bench/1`");
    visit("cupel", bench.cupel, "version");
    visit("task", bench.task, "what was measured");
    visit("direction", bench.direction, "of the operation");
    visit("gpu", bench.gpu, "where");
    visit("torch", bench.torch, "PyTorch's version; empty without baselines");
    visit("ceilings", bench.ceilings, "what the GPU reaches, see below");
    visit("kernels", bench.kernels, "for each its `name` and its `verdict` (a `cupel.verdict/1`)");
    visit("settings", bench.settings, "each setting at which a kernel was correct, see below");
    visit.Since("remembered_baselines", bench.remembered_baselines,
                "baselines that were not requested: `setting`, `name`, the median `us` when last "
                "measured on this GPU with this PyTorch, `taken_at` (seconds since 1970)");
    visit.Derived(
        "geometric_means", [&] { return bench.GeometricMeans(); }, "list of objects",
        "for `a` and `b`, the geometric mean `ratio` of their times over `settings` settings");
  }
};

}  // namespace cupel::records
