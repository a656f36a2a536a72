// SPDX-License-Identifier: Apache-2.0
#include "llm/request.h"

#include <fmt/format.h>

#include <utility>

#include "base/hash.h"

namespace cupel::llm {
namespace {

constexpr std::pair<Stop, const char*> kStops[] = {{Stop::kEnd, "end"},
                                                   {Stop::kLength, "length"},
                                                   {Stop::kRefusal, "refusal"},
                                                   {Stop::kOther, "other"}};

const char* RoleName(Role role) { return role == Role::kUser ? "user" : "assistant"; }

Json ToJson(const Sampling& sampling) {
  Json json = Json::object();
  if (sampling.max_tokens) json["max_tokens"] = *sampling.max_tokens;
  if (sampling.temperature) json["temperature"] = *sampling.temperature;
  if (sampling.effort) json["effort"] = *sampling.effort;
  if (sampling.thinking_tokens) json["thinking_tokens"] = *sampling.thinking_tokens;
  if (sampling.seed) json["seed"] = *sampling.seed;
  return json;
}

Result<Sampling> SamplingFromJson(const Json& json, std::string_view what) {
  Sampling sampling;
  if (json.contains("max_tokens")) {
    TRY_ASSIGN(sampling.max_tokens, JsonInt(json, "max_tokens", what));
  }
  if (json.contains("temperature")) {
    TRY_ASSIGN(sampling.temperature, JsonNumber(json, "temperature", what));
  }
  if (json.contains("effort")) {
    TRY_ASSIGN(sampling.effort, JsonString(json, "effort", what));
  }
  if (json.contains("thinking_tokens")) {
    TRY_ASSIGN(sampling.thinking_tokens, JsonInt(json, "thinking_tokens", what));
  }
  if (json.contains("seed")) {
    TRY_ASSIGN(sampling.seed, JsonInt(json, "seed", what));
  }
  return sampling;
}

std::string Hash(const Request& request, std::string_view model) {
  Sha256 hash;
  hash.Field("cupel request 1");
  hash.Field(model);
  hash.Field(request.system);
  hash.Field(std::to_string(request.messages.size()));
  for (const Message& message : request.messages) {
    hash.Field(RoleName(message.role));
    hash.Field(message.text);
  }
  hash.Field(DumpJson(ToJson(request.sampling)));
  hash.Field(std::to_string(request.sample));
  return hash.Hex();
}

}  // namespace

const char* StopName(Stop stop) {
  for (const auto& [value, name] : kStops) {
    if (value == stop) return name;
  }
  return "other";
}

std::string HashOf(const Request& request) { return Hash(request, request.model); }

std::string PromptHashOf(const Request& request) { return Hash(request, ""); }

std::string PlainText(const Request& request) {
  if (request.system.empty() && request.messages.size() == 1) return request.messages[0].text;
  std::string text;
  const auto add = [&text](std::string_view heading, std::string_view body) {
    text += fmt::format("{}# {}\n\n{}\n", text.empty() ? "" : "\n", heading, body);
  };
  if (!request.system.empty()) add("Instructions", request.system);
  for (const Message& message : request.messages) {
    add(message.role == Role::kUser ? "Request" : "Your earlier answer", message.text);
  }
  return text;
}

Json ToJson(const Request& request) {
  Json messages = Json::array();
  for (const Message& message : request.messages) {
    messages.push_back({{"role", RoleName(message.role)}, {"text", message.text}});
  }
  return {{"model", request.model},
          {"system", request.system},
          {"messages", std::move(messages)},
          {"sampling", ToJson(request.sampling)},
          {"sample", request.sample}};
}

Json ToJson(const Answer& answer) {
  return {{"text", answer.text},
          {"reasoning", answer.reasoning},
          {"stop", StopName(answer.stop)},
          {"model", answer.model},
          {"input_tokens", answer.usage.input_tokens},
          {"cached_tokens", answer.usage.cached_tokens},
          {"output_tokens", answer.usage.output_tokens},
          {"usage_bound", answer.usage_bound},
          {"usd", answer.usd}};
}

Result<Request> RequestFromJson(const Json& json, std::string_view what) {
  Request request;
  TRY_ASSIGN(request.model, JsonString(json, "model", what));
  TRY_ASSIGN(request.system, JsonString(json, "system", what));
  TRY_ASSIGN(const Json* messages, JsonArray(json, "messages", what));
  for (const Json& item : *messages) {
    Message message;
    TRY_ASSIGN(const std::string role, JsonString(item, "role", what));
    if (role != "user" && role != "assistant") {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the role of a message is \"{}\"", what, Shown(role, 40)),
                  "it must be user or assistant");
    }
    message.role = role == "user" ? Role::kUser : Role::kAssistant;
    TRY_ASSIGN(message.text, JsonString(item, "text", what));
    request.messages.push_back(std::move(message));
  }
  TRY_ASSIGN(const Json* sampling, JsonObject(json, "sampling", what));
  TRY_ASSIGN(request.sampling, SamplingFromJson(*sampling, what));
  TRY_ASSIGN(request.sample, JsonInt(json, "sample", what));
  return request;
}

Result<Answer> AnswerFromJson(const Json& json, std::string_view what) {
  Answer answer;
  TRY_ASSIGN(answer.text, JsonString(json, "text", what));
  TRY_ASSIGN(answer.reasoning, JsonString(json, "reasoning", what));
  TRY_ASSIGN(const std::string stop, JsonString(json, "stop", what));
  for (const auto& [value, name] : kStops) {
    if (stop == name) answer.stop = value;
  }
  TRY_ASSIGN(answer.model, JsonString(json, "model", what));
  TRY_ASSIGN(answer.usage.input_tokens, JsonInt(json, "input_tokens", what));
  TRY_ASSIGN(answer.usage.cached_tokens, JsonInt(json, "cached_tokens", what));
  TRY_ASSIGN(answer.usage.output_tokens, JsonInt(json, "output_tokens", what));
  TRY_ASSIGN(answer.usage_bound, JsonBool(json, "usage_bound", what));
  TRY_ASSIGN(answer.usd, JsonNumber(json, "usd", what));
  return answer;
}

std::string ValidUtf8(const std::string& text) {
  const Result<Json> json = ParseJson(DumpJson(Json(text)), "text");
  return json && json->is_string() ? json->get<std::string>() : text;
}

std::string Shown(std::string_view text, size_t max) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= max) {
      // Do not cut within a character.
      while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0) == 0x80) {
        line.pop_back();
      }
      if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xc0) line.pop_back();
      return line + "…";
    }
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control && (line.empty() || line.back() == ' ')) continue;
    line += control ? ' ' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace cupel::llm
