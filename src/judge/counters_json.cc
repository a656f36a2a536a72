// SPDX-License-Identifier: Apache-2.0
#include "judge/counters_json.h"

#include <algorithm>
#include <cmath>

namespace cupel::judge {
namespace {

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json DimsJson(plan::Dim3 dim) { return Json::array({dim.x, dim.y, dim.z}); }

/// Omits members that are zero, because most lines have few others.
Json LineJson(const engine::LineCounters& line) {
  Json json = {{"file", line.file}, {"line", line.line}};
  const engine::WorkCounts& w = line.work;
  const std::pair<const char*, uint64_t> members[] = {
      {"warp_instructions", w.warp_instructions},
      {"lane_instructions", w.lane_instructions},
      {"branches", w.branches},
      {"divergent_branches", w.divergent_branches},
      {"load_requests", w.load_requests},
      {"store_requests", w.store_requests},
      {"load_sectors", w.load_sectors},
      {"store_sectors", w.store_sectors},
      {"load_bytes", w.load_bytes},
      {"store_bytes", w.store_bytes},
      {"touched_bytes", w.touched_bytes},
      {"shared_requests", w.shared_requests},
      {"shared_wavefronts", w.shared_wavefronts},
      {"shared_ideal_wavefronts", w.shared_ideal_wavefronts},
      {"atomic_requests", w.atomic_requests},
      {"atomic_lanes", w.atomic_lanes},
      {"atomic_turns", w.atomic_turns},
      {"barriers", w.barriers}};
  for (const auto& [name, value] : members) {
    if (value != 0) json[name] = value;
  }
  if (w.sectors() != 0 && line.lane_stride != engine::kIrregular) {
    json["lane_stride"] = line.lane_stride;
  }
  return json;
}

Json MixJson(const engine::InstructionMix& mix) {
  Json json = Json::object();
  for (size_t i = 0; i < mix.size(); ++i) {
    if (mix[i] != 0) json[engine::Name(static_cast<engine::InstructionClass>(i))] = mix[i];
  }
  return json;
}

}  // namespace

Json CountersJson(const engine::LaunchCounters& launch, size_t most_lines) {
  Json json = {{"kernel", launch.kernel},
               {"grid", DimsJson(launch.grid)},
               {"block", DimsJson(launch.block)},
               {"warp_instructions", launch.warp_instructions},
               {"lane_instructions", launch.lane_instructions},
               {"global_load_sectors", launch.global_load_sectors},
               {"global_store_sectors", launch.global_store_sectors},
               {"global_load_bytes", launch.global_load_bytes},
               {"global_store_bytes", launch.global_store_bytes},
               {"touched_bytes", launch.work.touched_bytes},
               {"global_requests", launch.work.load_requests + launch.work.store_requests},
               {"shared_requests", launch.work.shared_requests},
               {"shared_wavefronts", launch.shared_wavefronts},
               {"shared_ideal_wavefronts", launch.work.shared_ideal_wavefronts},
               {"global_atomics", launch.global_atomics},
               {"atomic_turns", launch.work.atomic_turns},
               {"hottest_atomics", launch.hottest_atomics},
               {"barriers", launch.barriers},
               {"branches", launch.work.branches},
               {"divergent_branches", launch.work.divergent_branches},
               {"floating_point_operations", launch.floating_point_operations},
               {"tensor_operations", launch.tensor_operations},
               {"imbalance", NumberOrNull(launch.imbalance)},
               {"blocks_run", launch.blocks_run},
               {"blocks_counted", launch.blocks_counted},
               {"occupancy", NumberOrNull(launch.occupancy)},
               {"limited_by", launch.limited_by},
               {"estimated_us", NumberOrNull(launch.estimated_us)},
               {"mix", MixJson(launch.mix)}};
  Json& bounds = json["bounds_us"] = Json::object();
  for (const auto& [name, us] : launch.bounds) bounds[name] = NumberOrNull(us);
  Json& lines = json["lines"] = Json::array();
  for (size_t i = 0; i < std::min(most_lines, launch.lines.size()); ++i) {
    lines.push_back(LineJson(launch.lines[i]));
  }
  return json;
}

}  // namespace cupel::judge
