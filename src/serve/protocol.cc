// The messages that workers send.
// SPDX-License-Identifier: Apache-2.0
#include "serve/protocol.h"

#include <fmt/format.h>

#include "serve/wire.h"

namespace cupel::serve {
namespace {

constexpr size_t kMostSeeds = 1u << 16;
/// A hello begins with this. Other text may precede it on the line.
constexpr std::string_view kHelloBegins = "{\"type\":\"hello\",\"protocol\":\"cupel.worker/";

Json JsonOf(const Hello& hello) {
  return {{"type", "hello"},        {"protocol", hello.protocol}, {"version", hello.version},
          {"commit", hello.commit}, {"program", hello.program},   {"data", hello.data},
          {"host", hello.host},     {"pid", hello.pid},           {"cores", hello.cores}};
}

Json JsonOf(const Ready& ready) {
  return {{"type", "ready"},      {"device", ready.device}, {"timed", ready.timed},
          {"torch", ready.torch}, {"cases", ready.cases},   {"gpu", ready.gpu}};
}

Json JsonOf(const Alive& alive) {
  return {{"type", "alive"},
          {"ticket", alive.ticket},
          {"stage", alive.stage},
          {"done", alive.done},
          {"total", alive.total}};
}

Json JsonOf(const Done& done) {
  return {{"type", "done"},
          {"ticket", done.ticket},
          {"verdict", done.verdict},
          {"bench", done.bench},
          {"stale", done.is_stale},
          {"seconds", done.seconds},
          {"error", WireError(done.error)}};
}

Json JsonOf(const OpenCases& open) {
  Json json{{"type", "open"},
            {"stream", open.stream},
            {"ticket", open.ticket},
            {"backward", open.backward},
            {"setting", {{"id", open.setting_id}, {"init", open.init}, {"inputs", open.inputs}}},
            {"distribution", open.distribution},
            {"count", open.count},
            {"fresh", open.fresh},
            {"seed", WireSeed(open.seed)},
            {"seeds", nullptr}};
  if (open.seeds) {
    json["seeds"] = Json::array();
    for (const uint64_t seed : *open.seeds) json["seeds"].push_back(WireSeed(seed));
  }
  return json;
}

Json JsonOf(const NextCase& next) { return {{"type", "next"}, {"stream", next.stream}}; }
Json JsonOf(const CloseCases& close) { return {{"type", "close"}, {"stream", close.stream}}; }

Json JsonOf(const Fetch& fetch) {
  return {{"type", "fetch"}, {"sha256", fetch.sha256}, {"offset", fetch.offset}};
}

Json JsonOf(const Failed& failed) {
  return {{"type", "failed"}, {"error", WireError(failed.error)}};
}

Result<FromWorker> ReadHello(const Json& json) {
  Hello hello;
  TRY_ASSIGN(hello.protocol, WireText(json, "protocol", 64));
  // A hello of another protocol may have other members.
  if (hello.protocol != kProtocol) return FromWorker(hello);
  TRY_ASSIGN(hello.version, WireText(json, "version", 64));
  TRY_ASSIGN(hello.commit, WireText(json, "commit", 64));
  TRY_ASSIGN(hello.program, WireHash(json, "program", true));
  TRY_ASSIGN(hello.data, WireHash(json, "data", true));
  TRY_ASSIGN(hello.host, WireText(json, "host", 256));
  TRY_ASSIGN(hello.pid, WireCount(json, "pid"));
  TRY_ASSIGN(hello.cores, WireCount(json, "cores"));
  return FromWorker(std::move(hello));
}

Result<FromWorker> ReadReady(const Json& json) {
  Ready ready;
  TRY_ASSIGN(ready.device, WireText(json, "device", 256));
  TRY_ASSIGN(ready.timed, JsonBool(json, "timed", "message"));
  TRY_ASSIGN(ready.torch, WireText(json, "torch", 64));
  TRY_ASSIGN(ready.cases, WireText(json, "cases", 16));
  TRY_ASSIGN(ready.gpu, WireText(json, "gpu", 64));
  return FromWorker(std::move(ready));
}

Result<FromWorker> ReadDone(const Json& json) {
  Done done;
  TRY_ASSIGN(done.ticket, WireCount(json, "ticket"));
  TRY_ASSIGN(done.seconds, JsonNumber(json, "seconds", "message"));
  TRY_ASSIGN(done.error, ReadWireError(json));
  TRY_ASSIGN(done.is_stale, JsonBool(json, "stale", "message"));
  TRY_ASSIGN(const Json* verdict, WireMaybe(json, "verdict"));
  TRY_ASSIGN(const Json* bench, WireMaybe(json, "bench"));
  if (verdict != nullptr) done.verdict = *verdict;
  if (bench != nullptr) done.bench = *bench;
  const bool odd = !(done.verdict.is_object() || done.verdict.is_null()) ||
                   !(done.bench.is_object() || done.bench.is_null());
  if (odd ||
      done.verdict.is_object() + done.bench.is_object() + done.is_stale + done.error.has_value() !=
          1) {
    return Fail(ErrorCode::kInvalidArgument,
                "message: must have exactly one of verdict, bench, stale and error");
  }
  return FromWorker(std::move(done));
}

Result<FromWorker> ReadOpen(const Json& json) {
  OpenCases open;
  TRY_ASSIGN(open.stream, WireCount(json, "stream"));
  TRY_ASSIGN(open.ticket, WireCount(json, "ticket"));
  TRY_ASSIGN(open.backward, JsonBool(json, "backward", "message"));
  TRY_ASSIGN(const Json* setting, JsonObject(json, "setting", "message"));
  TRY_ASSIGN(open.setting_id, WireText(*setting, "id", 256));
  TRY_ASSIGN(const Json* init, JsonObject(*setting, "init", "setting"));
  TRY_ASSIGN(const Json* inputs, JsonObject(*setting, "inputs", "setting"));
  open.init = *init;
  open.inputs = *inputs;
  TRY_ASSIGN(open.distribution, WireText(json, "distribution", 64));
  TRY_ASSIGN(open.count, WireCount(json, "count"));
  TRY_ASSIGN(open.fresh, JsonBool(json, "fresh", "message"));
  TRY_ASSIGN(open.seed, ReadWireSeed(json, "seed"));
  TRY_ASSIGN(const Json* seeds, WireMaybe(json, "seeds"));
  if (seeds != nullptr) {
    TRY_ASSIGN(const auto texts, WireTexts(json, "seeds", kMostSeeds));
    open.seeds.emplace();
    for (const std::string& text : texts) {
      TRY_ASSIGN(const uint64_t seed, ParseSeed(text));
      open.seeds->push_back(seed);
    }
  }
  return FromWorker(std::move(open));
}

Result<FromWorker> ReadFailed(const Json& json) {
  TRY_ASSIGN(std::optional<Error> error, ReadWireError(json));
  return FromWorker(Failed{error.value_or(Error{})});
}

Result<FromWorker> ReadFetch(const Json& json) {
  Fetch fetch;
  TRY_ASSIGN(fetch.sha256, WireHash(json, "sha256"));
  TRY_ASSIGN(fetch.offset, WireCount(json, "offset"));
  return FromWorker(std::move(fetch));
}

}  // namespace

std::string LineOf(const FromWorker& message) {
  return DumpJson(std::visit([](const auto& m) { return JsonOf(m); }, message));
}

Result<FromWorker> ReadFromWorker(std::string_view line) {
  TRY_ASSIGN(const Json json, ParseJson(line, "message"));
  TRY_ASSIGN(const std::string type, WireText(json, "type", 64));
  if (type == "hello") return ReadHello(json);
  if (type == "ready") return ReadReady(json);
  if (type == "done") return ReadDone(json);
  if (type == "open") return ReadOpen(json);
  if (type == "fetch") return ReadFetch(json);
  if (type == "failed") return ReadFailed(json);
  if (type == "alive") {
    Alive alive;
    TRY_ASSIGN(alive.ticket, WireCount(json, "ticket"));
    TRY_ASSIGN(alive.stage, WireText(json, "stage"));
    TRY_ASSIGN(alive.done, WireCount(json, "done"));
    TRY_ASSIGN(alive.total, WireCount(json, "total"));
    return FromWorker(std::move(alive));
  }
  if (type == "next" || type == "close") {
    TRY_ASSIGN(const int64_t stream, WireCount(json, "stream"));
    return type == "next" ? FromWorker(NextCase{stream}) : FromWorker(CloseCases{stream});
  }
  return Fail(ErrorCode::kInvalidArgument, "message.type is unknown in messages from a worker");
}

std::optional<size_t> FindHello(std::string_view line) {
  const size_t position = line.find(kHelloBegins);
  if (position == std::string_view::npos) return std::nullopt;
  return position;
}

}  // namespace cupel::serve
