// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline_reply.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "oracle/reply.h"

namespace cupel::oracle {
namespace {

constexpr size_t kMaxOutputs = 256;
constexpr double kMaxMicroseconds = 1e10;

/// A finite number of at least 0, or infinity if `key` is null.
Result<double> Magnitude(const Json& object, const char* key) {
  if (object.contains(key) && object[key].is_null()) return std::numeric_limits<double>::infinity();
  TRY_ASSIGN(const double value, JsonNumber(object, key, kBaseline));
  if (!std::isfinite(value) || value < 0)
    return InvalidReply(kBaseline, fmt::format("{} = {}", key, value));
  return value;
}

Result<std::vector<BaselineOutput>> ReadOutputs(const Json& reply) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, "outputs", kBaseline));
  if (list->size() > kMaxOutputs)
    return InvalidReply(kBaseline, fmt::format("{} outputs", list->size()));
  std::vector<BaselineOutput> outputs;
  for (const Json& item : *list) {
    BaselineOutput output;
    TRY_ASSIGN(output.name, ReplyText(item, "name", kBaseline));
    TRY_ASSIGN(output.is_none, JsonBool(item, "none", kBaseline));
    if (!output.is_none) {
      TRY_ASSIGN(output.difference, Magnitude(item, "difference"));
      TRY_ASSIGN(output.largest, Magnitude(item, "largest"));
      TRY_ASSIGN(output.rms_share, Magnitude(item, "rms_share"));
      if (item.contains("differing") && !item["differing"].is_null()) {
        TRY_ASSIGN(output.differing, Magnitude(item, "differing"));
      }
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace

Result<BaselineInfo> ReadBaselineInfo(const Json& reply, size_t seeds) {
  BaselineInfo info;
  TRY_ASSIGN(info.torch_version, ReplyText(reply, "torch", kBaseline));
  TRY_ASSIGN(info.gpu, ReplyText(reply, "gpu", kBaseline));
  TRY_ASSIGN(info.how, ReplyText(reply, "how", kBaseline));
  TRY_ASSIGN(info.why, ReplyText(reply, "why", kBaseline));
  TRY_ASSIGN(info.fewer, ReplyText(reply, "fewer", kBaseline));
  if (reply.contains("libraries")) {
    TRY_ASSIGN(info.libraries, ReplyText(reply, "libraries", kBaseline));
  }
  TRY_ASSIGN(info.tf32, JsonBool(reply, "tf32", kBaseline));
  TRY_ASSIGN(info.seconds, Magnitude(reply, "seconds"));
  TRY_ASSIGN(info.outputs, ReadOutputs(reply));
  TRY_ASSIGN(const int64_t sets, JsonInt(reply, "sets", kBaseline));
  if (info.how != "graph" && info.how != "stream")
    return InvalidReply(kBaseline, "how = " + info.how);
  if (sets < 1 || static_cast<uint64_t>(sets) > seeds) {
    return InvalidReply(kBaseline, fmt::format("{} sets of {}", sets, seeds));
  }
  info.sets = static_cast<int>(sets);
  if (reply.contains("flops")) {
    TRY_ASSIGN(info.flops, JsonNumber(reply, "flops", kBaseline));
    if (!(info.flops >= 0 && info.flops < 1e30)) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: flops is out of range", kBaseline));
    }
  }
  if (!reply.contains("kernels") || !reply["kernels"].is_null()) {
    TRY_ASSIGN(info.kernels, JsonInt(reply, "kernels", kBaseline));
    if (info.kernels < 0) return InvalidReply(kBaseline, fmt::format("{} kernels", info.kernels));
  }
  return info;
}

Result<std::vector<double>> ReadBaselineSamples(const Json& reply, int count) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, "us", kBaseline));
  if (list->size() != static_cast<size_t>(count)) {
    return InvalidReply(kBaseline, fmt::format("{} samples instead of {}", list->size(), count));
  }
  std::vector<double> samples;
  samples.reserve(list->size());
  for (const Json& item : *list) {
    const double us = item.is_number() ? item.get<double>() : std::nan("");
    if (!(us > 0 && us < kMaxMicroseconds)) {
      return InvalidReply(kBaseline,
                          fmt::format("a sample of {} us", DumpJson(item).substr(0, 40)));
    }
    samples.push_back(us);
  }
  return samples;
}

Result<BaselineEnergy> ReadBaselineEnergy(const Json& reply) {
  BaselineEnergy energy;
  TRY_ASSIGN(energy.joules, JsonNumber(reply, "joules", kBaseline));
  TRY_ASSIGN(energy.watts, JsonNumber(reply, "watts", kBaseline));
  TRY_ASSIGN(energy.calls, JsonInt(reply, "calls", kBaseline));
  const bool possible = std::isfinite(energy.joules) && energy.joules >= 0 &&
                        std::isfinite(energy.watts) && energy.watts >= 0 && energy.calls > 0;
  if (possible) return energy;
  return InvalidReply(kBaseline, fmt::format("{} J and {} W in {} calls", energy.joules,
                                             energy.watts, energy.calls));
}

}  // namespace cupel::oracle
