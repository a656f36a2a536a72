// The messages that the coordinator sends.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/hash.h"
#include "build/build.h"
#include "report/bench_parts.h"
#include "serve/protocol.h"
#include "serve/wire.h"

namespace cupel::serve {
namespace {

Json MessageJson(const Setup& setup) {
  Json roots = Json::array();
  for (const auto& root : setup.include_roots) roots.push_back(root.string());
  return {{"type", "setup"},
          {"device", setup.device},
          {"model", setup.model},
          {"engines", setup.engines},
          {"arch", setup.arch},
          {"flags", setup.flags},
          {"include_roots", std::move(roots)},
          {"compile_seconds", setup.compile_seconds},
          {"allow_weak_sandbox", setup.allow_weak_sandbox},
          {"python", setup.python},
          {"cases", setup.cases},
          {"threads", setup.threads}};
}

Json MessageJson(const Assignment& work) {
  const Item& item = work.item;
  return {{"type", "do"},
          {"ticket", work.ticket},
          {"id", item.id},
          {"kernel", item.kernel.string()},
          {"flags", item.flags},
          {"source", Base64Encode(work.source)},
          {"task_path", work.task_path},
          {"task_sha256", work.task_hash},
          {"task", ToJson(work.task)},
          {"backward", item.backward},
          {"settings", item.settings},
          {"trials", item.trials},
          {"seed", WireSeed(item.seed)},
          {"thorough", item.thorough},
          {"explores", item.explores},
          {"full_size", item.full_size},
          {"baselines", item.baselines},
          {"energy", item.energy},
          {"rounds", item.rounds},
          {"verdict", item.judged.verdict},
          {"setting", work.setting}};
}

Json MessageJson(const CaseAnswer& answer) {
  Json json{{"type", "case"},
            {"stream", answer.stream},
            {"sha256", answer.sha256},
            {"bytes", answer.bytes},
            {"content_hash", answer.content_hash},
            {"failure", nullptr},
            {"error", WireError(answer.error)},
            {"warnings", answer.warnings}};
  if (answer.failure) {
    json["failure"] = {{"message", answer.failure->message},
                       {"inapplicable", answer.failure->inapplicable}};
  }
  return json;
}

Json MessageJson(const Chunk& chunk) {
  return {{"type", "chunk"},
          {"sha256", chunk.sha256},
          {"offset", chunk.offset},
          {"data", Base64Encode(chunk.data)},
          {"error", WireError(chunk.error)}};
}

Json MessageJson(const Alive&) { return {{"type", "alive"}}; }
Json MessageJson(const Bye&) { return {{"type", "bye"}}; }

Result<ToWorker> ReadSetup(const Json& json) {
  Setup setup;
  TRY_ASSIGN(setup.device, WireText(json, "device", 64));
  TRY_ASSIGN(setup.model, WireText(json, "model", 64));
  TRY_ASSIGN(setup.engines, WireText(json, "engines", 16));
  TRY_ASSIGN(setup.arch, WireText(json, "arch", 64));
  TRY_ASSIGN(setup.flags, WireTexts(json, "flags"));
  TRY_ASSIGN(const auto roots, WireTexts(json, "include_roots"));
  setup.include_roots.assign(roots.begin(), roots.end());
  TRY_ASSIGN(const int64_t seconds, WireCount(json, "compile_seconds"));
  if (seconds < 1 || seconds > 7200) {
    return Fail(ErrorCode::kInvalidArgument, "message.compile_seconds is not within 1 to 7200");
  }
  setup.compile_seconds = static_cast<int>(seconds);
  TRY_ASSIGN(setup.allow_weak_sandbox, JsonBool(json, "allow_weak_sandbox", "message"));
  TRY_ASSIGN(setup.python, WireText(json, "python", 4096));
  TRY_ASSIGN(setup.cases, WireText(json, "cases", 16));
  TRY_ASSIGN(const int64_t threads, WireCount(json, "threads"));
  if (threads > 65536) return Fail(ErrorCode::kInvalidArgument, "message.threads is too large");
  setup.threads = static_cast<int>(threads);
  return ToWorker(std::move(setup));
}

Result<ToWorker> ReadAssignment(const Json& json) {
  Assignment work;
  TRY_ASSIGN(work.ticket, WireCount(json, "ticket"));
  TRY_ASSIGN(work.item.id, WireText(json, "id"));
  TRY_ASSIGN(const std::string kernel, WireText(json, "kernel", 4096));
  work.item.kernel = kernel;
  TRY_ASSIGN(work.item.flags, WireTexts(json, "flags"));
  TRY_ASSIGN(const std::string source, JsonString(json, "source", "message"));
  TRY_ASSIGN(work.source, Base64Decode(source, "message.source"));
  TRY_ASSIGN(work.task_path, WireText(json, "task_path", 4096));
  TRY_ASSIGN(work.task_hash, WireHash(json, "task_sha256"));
  TRY_ASSIGN(const Json* bundle, JsonObject(json, "task", "message"));
  TRY_ASSIGN(work.task, ReadTaskBundle(*bundle));
  TRY_ASSIGN(work.item.backward, JsonBool(json, "backward", "message"));
  TRY_ASSIGN(work.item.settings, WireText(json, "settings", 16));
  TRY_ASSIGN(const int64_t trials, WireCount(json, "trials"));
  TRY_ASSIGN(work.item.seed, ReadWireSeed(json, "seed"));
  TRY_ASSIGN(work.item.thorough, JsonBool(json, "thorough", "message"));
  TRY_ASSIGN(work.item.explores, JsonBool(json, "explores", "message"));
  TRY_ASSIGN(work.item.full_size, JsonBool(json, "full_size", "message"));
  TRY_ASSIGN(work.item.baselines, JsonBool(json, "baselines", "message"));
  TRY_ASSIGN(work.item.energy, JsonBool(json, "energy", "message"));
  TRY_ASSIGN(const int64_t rounds, WireCount(json, "rounds"));
  TRY_ASSIGN(const Json* verdict, WireMaybe(json, "verdict"));
  if (verdict != nullptr) {
    TRY_ASSIGN(verdict, JsonObject(json, "verdict", "message"));
    work.item.judged.verdict = *verdict;
  }
  TRY_ASSIGN(work.setting, WireText(json, "setting", report::kLongestSettingId));
  if (work.setting.empty() != (verdict == nullptr)) {
    return Fail(ErrorCode::kInvalidArgument, "message: verdict and setting must be given together");
  }
  if (trials < 1 || trials > 10000 || rounds < 1 || rounds > 100000 ||
      work.source.size() > build::kMaxSourceBytes) {
    return Fail(ErrorCode::kInvalidArgument, "message: trials, rounds or source are out of bounds");
  }
  work.item.trials = static_cast<int>(trials);
  work.item.rounds = static_cast<int>(rounds);
  return ToWorker(std::move(work));
}

Result<ToWorker> ReadCaseAnswer(const Json& json) {
  CaseAnswer answer;
  TRY_ASSIGN(answer.stream, WireCount(json, "stream"));
  TRY_ASSIGN(answer.sha256, WireHash(json, "sha256", true));
  TRY_ASSIGN(answer.bytes, WireCount(json, "bytes"));
  TRY_ASSIGN(answer.content_hash, WireHash(json, "content_hash", true));
  TRY_ASSIGN(answer.error, ReadWireError(json));
  TRY_ASSIGN(answer.warnings, WireTexts(json, "warnings"));
  TRY_ASSIGN(const Json* found, WireMaybe(json, "failure"));
  if (found != nullptr) {
    TRY_ASSIGN(const Json* failure, JsonObject(json, "failure", "message"));
    answer.failure.emplace();
    TRY_ASSIGN(answer.failure->message, WireText(*failure, "message"));
    TRY_ASSIGN(answer.failure->inapplicable, JsonBool(*failure, "inapplicable", "message"));
  }
  return ToWorker(std::move(answer));
}

Result<ToWorker> ReadChunk(const Json& json) {
  Chunk chunk;
  TRY_ASSIGN(chunk.sha256, WireHash(json, "sha256"));
  TRY_ASSIGN(chunk.offset, WireCount(json, "offset"));
  TRY_ASSIGN(const std::string data, JsonString(json, "data", "message"));
  TRY_ASSIGN(chunk.data, Base64Decode(data, "message.data"));
  TRY_ASSIGN(chunk.error, ReadWireError(json));
  if (chunk.data.size() > kChunkBytes) {
    return Fail(ErrorCode::kInvalidArgument, "message.data is too long");
  }
  return ToWorker(std::move(chunk));
}

}  // namespace

std::string LineOf(const ToWorker& message) {
  return DumpJson(std::visit([](const auto& m) { return MessageJson(m); }, message));
}

Result<ToWorker> ReadToWorker(std::string_view line) {
  TRY_ASSIGN(const Json json, ParseJson(line, "message"));
  TRY_ASSIGN(const std::string type, WireText(json, "type", 64));
  if (type == "setup") return ReadSetup(json);
  if (type == "do") return ReadAssignment(json);
  if (type == "case") return ReadCaseAnswer(json);
  if (type == "chunk") return ReadChunk(json);
  if (type == "alive") return ToWorker(Alive{});
  if (type == "bye") return ToWorker(Bye{});
  return Fail(ErrorCode::kInvalidArgument,
              "message.type is unknown in messages from a coordinator");
}

}  // namespace cupel::serve
