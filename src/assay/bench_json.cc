// SPDX-License-Identifier: Apache-2.0
#include "assay/bench.h"

namespace cupel::assay {
namespace {

Json IntervalJson(const stats::Interval& interval) {
  return {{"estimate", interval.estimate},
          {"low", interval.low},
          {"high", interval.high},
          {"confidence", interval.confidence}};
}

Json TimingJson(const Timing& timing) {
  Json json{{"name", timing.name}, {"baseline", timing.is_baseline}};
  if (timing.refused) {
    json["refused"] = {{"code", timing.refused->code},
                       {"message", timing.refused->message},
                       {"where", timing.refused->where}};
  }
  if (!timing.oddities.empty()) json["oddities"] = timing.oddities;
  if (timing.samples.cold.empty()) return json;
  json["us"] = IntervalJson(timing.median);
  json["spread_us"] = timing.spread;
  json["samples"] = timing.samples.cold.size();
  json["samples_us"] = timing.samples.cold;
  json["warm_us"] = timing.warm_us;
  json["host_us"] = timing.host_us ? Json(*timing.host_us) : Json();
  json["bytes_per_second"] = timing.bytes_a_second;
  json["roofline"] = timing.roofline;
  if (timing.flops > 0) json["flops"] = timing.flops;
  if (!timing.how.empty()) json["how"] = timing.how;
  if (timing.energy) {
    json["energy"] = {{"joules", timing.energy->joules},
                      {"watts", timing.energy->watts},
                      {"calls", timing.energy->calls}};
  }
  if (!timing.is_baseline) {
    json["verified_replays"] = timing.verified;
    json["visible_secrets"] = timing.visible;
  }
  return json;
}

/// A bench document does not include other processes on the GPU.
Json StateJson(const engine::GpuState& state) {
  Json json = ToJson(state);
  json.erase("processes");
  return json;
}

}  // namespace

Json ToJson(const SettingTimes& times) {
  Json json{{"id", times.id}, {"kind", times.kind}, {"description", times.description}};
  if (!times.note.empty()) json["note"] = times.note;
  json["timings"] = Json::array();
  for (const Timing& timing : times.timings) json["timings"].push_back(TimingJson(timing));
  json["comparisons"] = Json::array();
  for (const Comparison& comparison : times.comparisons) {
    json["comparisons"].push_back({{"a", times.timings[comparison.a].name},
                                   {"b", times.timings[comparison.b].name},
                                   {"ratio", IntervalJson(comparison.compared.ratio)},
                                   {"a_is", stats::Name(comparison.compared.difference)}});
  }
  json["input_sets"] = times.sets;
  json["clock_overhead_us"] = times.overhead_us;
  json["read_bytes"] = times.read_bytes;
  json["written_bytes"] = times.written_bytes;
  if (times.flops > 0) json["floating_point_operations"] = times.flops;
  json["floor_us"] = times.floor_us;
  json["before"] = StateJson(times.before);
  json["after"] = StateJson(times.after);
  json["torch"] = times.torch_version;
  json["seconds"] = times.seconds;
  json["stage_seconds"] = {{"cases", times.stages.cases},
                           {"prepare", times.stages.prepare},
                           {"timer", times.stages.timer},
                           {"replays", times.stages.replays},
                           {"verify", times.stages.verify}};
  return json;
}

}  // namespace cupel::assay
