// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline_reply.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace cupel::oracle {
namespace {

constexpr char kWho[] = "baseline.py";
constexpr size_t kMaxOutputs = 256;
constexpr size_t kMaxText = 2000;
constexpr double kMaxMicroseconds = 1e10;

tl::unexpected<Error> Nonsense(const std::string& what) {
  return Fail(ErrorCode::kInternal, fmt::format("{} answers nonsense: {}", kWho, what),
              "the task's code may have disturbed it");
}

}  // namespace

Result<std::string> ReplyText(const Json& reply, const char* key) {
  TRY_ASSIGN(std::string text, JsonString(reply, key, kWho));
  if (text.size() > kMaxText) text.resize(kMaxText);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

namespace {

/// Finite and at least 0; where `key` holds null, infinity.
Result<double> Magnitude(const Json& object, const char* key) {
  if (object.contains(key) && object[key].is_null()) return std::numeric_limits<double>::infinity();
  TRY_ASSIGN(const double value, JsonNumber(object, key, kWho));
  if (!std::isfinite(value) || value < 0) return Nonsense(fmt::format("{} = {}", key, value));
  return value;
}

Result<std::vector<BaselineOutput>> ReadOutputs(const Json& reply) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, "outputs", kWho));
  if (list->size() > kMaxOutputs) return Nonsense(fmt::format("{} outputs", list->size()));
  std::vector<BaselineOutput> outputs;
  for (const Json& item : *list) {
    BaselineOutput output;
    TRY_ASSIGN(output.name, ReplyText(item, "name"));
    TRY_ASSIGN(output.is_none, JsonBool(item, "none", kWho));
    if (!output.is_none) {
      TRY_ASSIGN(output.difference, Magnitude(item, "difference"));
      TRY_ASSIGN(output.largest, Magnitude(item, "largest"));
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace

Result<BaselineInfo> ReadBaselineInfo(const Json& reply, size_t seeds) {
  BaselineInfo info;
  TRY_ASSIGN(info.torch_version, ReplyText(reply, "torch"));
  TRY_ASSIGN(info.gpu, ReplyText(reply, "gpu"));
  TRY_ASSIGN(info.how, ReplyText(reply, "how"));
  TRY_ASSIGN(info.why, ReplyText(reply, "why"));
  TRY_ASSIGN(info.fewer, ReplyText(reply, "fewer"));
  TRY_ASSIGN(info.tf32, JsonBool(reply, "tf32", kWho));
  TRY_ASSIGN(info.seconds, Magnitude(reply, "seconds"));
  TRY_ASSIGN(info.outputs, ReadOutputs(reply));
  TRY_ASSIGN(const int64_t sets, JsonInt(reply, "sets", kWho));
  if (info.how != "graph" && info.how != "stream") return Nonsense("how = " + info.how);
  if (sets < 1 || static_cast<uint64_t>(sets) > seeds) {
    return Nonsense(fmt::format("{} sets of {}", sets, seeds));
  }
  info.sets = static_cast<int>(sets);
  if (reply.contains("flops")) {
    TRY_ASSIGN(info.flops, JsonNumber(reply, "flops", kWho));
    if (!(info.flops >= 0 && info.flops < 1e30)) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: flops is out of range", kWho));
    }
  }
  if (!reply.contains("kernels") || !reply["kernels"].is_null()) {
    TRY_ASSIGN(info.kernels, JsonInt(reply, "kernels", kWho));
    if (info.kernels < 0) return Nonsense(fmt::format("{} kernels", info.kernels));
  }
  return info;
}

Result<std::vector<double>> ReadBaselineSamples(const Json& reply, int count) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, "us", kWho));
  if (list->size() != static_cast<size_t>(count)) {
    return Nonsense(fmt::format("{} samples where {} were asked for", list->size(), count));
  }
  std::vector<double> samples;
  samples.reserve(list->size());
  for (const Json& item : *list) {
    const double us = item.is_number() ? item.get<double>() : std::nan("");
    if (!(us > 0 && us < kMaxMicroseconds)) {
      return Nonsense(fmt::format("a sample of {} us", DumpJson(item).substr(0, 40)));
    }
    samples.push_back(us);
  }
  return samples;
}

}  // namespace cupel::oracle
