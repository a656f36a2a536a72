// Tested by protocol_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/dtype.h"
#include "base/error_json.h"
#include "base/json.h"
#include "records/json.h"

namespace cupel::gpu {
namespace {

constexpr size_t kMostOutputs = 1024, kMostFindings = 1024, kMostDimensions = 64;

Result<engine::OutputTensor> OutputFromJson(const Json& json, SharedMemory& memory) {
  engine::OutputTensor output;
  TRY_ASSIGN(output.is_none, JsonBool(json, "none", "output"));
  if (output.is_none) return output;
  TRY_ASSIGN(const std::string name, JsonString(json, "dtype", "output"));
  const auto dtype = DTypeFromName(name);
  TRY_ASSIGN(output.shape, JsonIntList(json, "shape", "output"));
  TRY_ASSIGN(const int64_t at, JsonInt(json, "at", "output"));
  unsigned __int128 bytes = dtype ? static_cast<unsigned>(SizeOf(*dtype)) : 0;
  bool valid = dtype.has_value() && at >= 0 && output.shape.size() <= kMostDimensions;
  for (const int64_t size : output.shape) {
    valid = valid && size >= 0 && bytes <= kMostShared;
    if (valid) bytes *= static_cast<uint64_t>(size);
  }
  if (!valid || bytes > kMostShared || static_cast<uint64_t>(at) > kMostShared) {
    return Fail(ErrorCode::kInternal, "the GPU worker sent an invalid output");
  }
  output.dtype = *dtype;
  const auto begin = static_cast<uint64_t>(at), size = static_cast<uint64_t>(bytes);
  TRY_ASSIGN(const std::span<std::byte> all, memory.Map(begin + size));
  output.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
  output.bytes.resize(size);
  return output;
}

}  // namespace

Result<Json> RunToJson(const engine::Run& run, uint64_t at, SharedMemory& memory) {
  Json json{
      {"completed", run.completed}, {"unsupported", run.unsupported}, {"seconds", run.seconds}};
  Json& findings = json["findings"] = Json::array();
  for (const records::Finding& finding : run.findings) findings.push_back(records::ToJson(finding));
  uint64_t end = at;
  for (const engine::OutputTensor& output : run.outputs)
    end = AlignedForTensor(end) + output.bytes.size();
  TRY_ASSIGN(const std::span<std::byte> all, memory.Map(end));
  Json& outputs = json["outputs"] = Json::array();
  for (const engine::OutputTensor& output : run.outputs) {
    at = AlignedForTensor(at);
    if (!output.bytes.empty()) {
      std::memcpy(all.data() + at, output.bytes.data(), output.bytes.size());
    }
    outputs.push_back({{"none", output.is_none},
                       {"dtype", std::string(Name(output.dtype))},
                       {"shape", output.shape},
                       {"at", at}});
    at += output.bytes.size();
  }
  return json;
}

Result<engine::Run> RunFromJson(const Json& json, SharedMemory& memory) {
  engine::Run run;
  TRY_ASSIGN(run.completed, JsonBool(json, "completed", "run"));
  TRY_ASSIGN(run.unsupported, JsonString(json, "unsupported", "run"));
  TRY_ASSIGN(run.seconds, JsonNumber(json, "seconds", "run"));
  TRY_ASSIGN(const Json* findings, JsonArray(json, "findings", "run"));
  TRY_ASSIGN(const Json* outputs, JsonArray(json, "outputs", "run"));
  if (findings->size() > kMostFindings || outputs->size() > kMostOutputs) {
    return Fail(ErrorCode::kInternal, "the GPU worker sent too many findings or outputs");
  }
  for (const Json& item : *findings) {
    TRY_ASSIGN(records::Finding finding, records::ReadFinding(item, "finding"));
    run.findings.push_back(std::move(finding));
  }
  for (const Json& item : *outputs) {
    TRY_ASSIGN(engine::OutputTensor output, OutputFromJson(item, memory));
    run.outputs.push_back(std::move(output));
  }
  return run;
}

Error ErrorFromJson(const Json& json) {
  Error error;
  error.message = JsonString(json, "message", "error").value_or("the GPU worker failed");
  error.remedy = JsonString(json, "remedy", "error").value_or("");
  error.code = ErrorCodeNamed(JsonString(json, "code", "error").value_or(""));
  return error;
}

}  // namespace cupel::gpu
