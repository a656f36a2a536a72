// Tested by protocol_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/timing_protocol.h"

#include <cmath>
#include <utility>

#include "base/json.h"

namespace cupel::gpu {
namespace {

constexpr size_t kMostChanges = 64;
constexpr int64_t kMostArguments = 1 << 20;
constexpr std::pair<engine::TimingMode, const char*> kModes[] = {
    {engine::TimingMode::kCold, "cold"},
    {engine::TimingMode::kWarm, "warm"},
    {engine::TimingMode::kOperators, "operators"},
    {engine::TimingMode::kHost, "host"},
};

Result<int> SmallInt(const Json& json, const char* key, const char* where) {
  TRY_ASSIGN(const int64_t value, JsonInt(json, key, where));
  if (value < 0 || value > 1'000'000'000) {
    return Fail(ErrorCode::kInvalidArgument, std::string(where) + ": " + key + " is out of range");
  }
  return static_cast<int>(value);
}

}  // namespace

Json ToJson(const engine::TakeRequest& request) {
  Json changes = Json::array();
  for (const engine::Change& change : request.changes) {
    changes.push_back({change.argument, change.offset, Base64Encode(change.bytes)});
  }
  std::string mode;
  for (const auto& [value, name] : kModes) {
    if (value == request.mode) mode = name;
  }
  return {{"take", request.entrant}, {"mode", mode},       {"set", request.set},
          {"count", request.count},  {"changes", changes}, {"keep", request.keep_outputs}};
}

Result<engine::TakeRequest> TakeRequestFromJson(const Json& json) {
  constexpr const char* kWhere = "take";
  engine::TakeRequest request;
  TRY_ASSIGN(const int entrant, SmallInt(json, "take", kWhere));
  request.entrant = static_cast<size_t>(entrant);
  TRY_ASSIGN(const std::string mode, JsonString(json, "mode", kWhere));
  bool known = false;
  for (const auto& [value, name] : kModes) {
    if (mode != name) continue;
    request.mode = value;
    known = true;
  }
  if (!known) return Fail(ErrorCode::kInvalidArgument, "take: unknown mode " + mode);
  TRY_ASSIGN(request.set, SmallInt(json, "set", kWhere));
  TRY_ASSIGN(request.count, SmallInt(json, "count", kWhere));
  TRY_ASSIGN(request.keep_outputs, JsonBool(json, "keep", kWhere));
  TRY_ASSIGN(const Json* changes, JsonArray(json, "changes", kWhere));
  if (changes->size() > kMostChanges)
    return Fail(ErrorCode::kInvalidArgument, "take: too many changes");
  for (const Json& item : *changes) {
    const bool valid = item.is_array() && item.size() == 3 && item[0].is_number_integer() &&
                       item[1].is_number_integer() && item[2].is_string();
    if (!valid || item[0].get<int64_t>() < 0 || item[0].get<int64_t>() > kMostArguments ||
        item[1].get<int64_t>() < 0) {
      return Fail(ErrorCode::kInvalidArgument, "take: a change is malformed");
    }
    TRY_ASSIGN(std::string bytes, Base64Decode(item[2].get<std::string>(), kWhere));
    request.changes.push_back({item[0].get<int>(), item[1].get<uint64_t>(), std::move(bytes)});
  }
  return request;
}

Json ToJson(const engine::ClockKernels& kernels) {
  return {{"flush_ptx", kernels.flush_ptx},     {"flush_entry", kernels.flush_entry},
          {"flush_grid", kernels.flush_grid},   {"flush_block", kernels.flush_block},
          {"flush_bytes", kernels.flush_bytes}, {"probe_ptx", kernels.probe_ptx},
          {"probe_entry", kernels.probe_entry}, {"probe_grid", kernels.probe_grid},
          {"probe_block", kernels.probe_block}, {"probe_iterations", kernels.probe_iterations}};
}

Result<engine::ClockKernels> ClockKernelsFromJson(const Json& json) {
  constexpr const char* kWhere = "kernels";
  engine::ClockKernels kernels;
  TRY_ASSIGN(kernels.flush_ptx, JsonString(json, "flush_ptx", kWhere));
  TRY_ASSIGN(kernels.flush_entry, JsonString(json, "flush_entry", kWhere));
  TRY_ASSIGN(kernels.probe_ptx, JsonString(json, "probe_ptx", kWhere));
  TRY_ASSIGN(kernels.probe_entry, JsonString(json, "probe_entry", kWhere));
  TRY_ASSIGN(const int64_t bytes, JsonInt(json, "flush_bytes", kWhere));
  if (bytes < 0) return Fail(ErrorCode::kInvalidArgument, "kernels: flush_bytes is negative");
  kernels.flush_bytes = static_cast<uint64_t>(bytes);
  const std::pair<const char*, uint32_t*> counts[] = {
      {"flush_grid", &kernels.flush_grid},
      {"flush_block", &kernels.flush_block},
      {"probe_grid", &kernels.probe_grid},
      {"probe_block", &kernels.probe_block},
      {"probe_iterations", &kernels.probe_iterations}};
  for (const auto& [key, count] : counts) {
    TRY_ASSIGN(const int value, SmallInt(json, key, kWhere));
    *count = static_cast<uint32_t>(value);
  }
  return kernels;
}

Result<std::vector<double>> TimesFromJson(const Json& json, size_t most) {
  std::vector<double> times;
  bool valid = json.is_array() && json.size() <= most;
  for (size_t i = 0; valid && i < json.size(); ++i) {
    valid = json[i].is_number();
    if (valid) times.push_back(json[i].get<double>());
    valid = valid && std::isfinite(times.back()) && times.back() >= 0;
  }
  if (valid) return times;
  return Fail(ErrorCode::kInternal, "the GPU worker sent invalid times");
}

}  // namespace cupel::gpu
