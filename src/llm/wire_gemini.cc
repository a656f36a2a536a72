// Gemini's streamGenerateContent. Every event is a separate response with the next parts of the
// text; the last one has a finishReason. For a blocked prompt there are no candidates.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "llm/wire_formats.h"

namespace cupel::llm {
namespace {

Stop GeminiStop(std::string_view reason) {
  if (reason == "STOP") return Stop::kEnd;
  if (reason == "MAX_TOKENS") return Stop::kLength;
  constexpr std::array<std::string_view, 5> kRefusals = {"SAFETY", "RECITATION", "BLOCKLIST",
                                                         "PROHIBITED_CONTENT", "SPII"};
  return std::ranges::find(kRefusals, reason) != kRefusals.end() ? Stop::kRefusal : Stop::kOther;
}

void ReadGeminiUsage(const Json& usage, Incoming& incoming) {
  if (!usage.is_object()) return;
  Usage& into = incoming.answer.usage;
  into.input_tokens = CountAt(usage, "promptTokenCount");
  into.cached_tokens = CountAt(usage, "cachedContentTokenCount");
  into.output_tokens =
      CountAt(usage, "candidatesTokenCount") + CountAt(usage, "thoughtsTokenCount");
  // Earlier events carry running totals.
  incoming.has_usage = incoming.ended;
}

}  // namespace

std::string GeminiWire::Path(std::string_view model) const {
  std::string path = "/models/";
  constexpr char kHex[] = "0123456789ABCDEF";
  for (const char c : model) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_';
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      path += c;
    } else {
      path += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return path + ":streamGenerateContent?alt=sse";
}

Json GeminiWire::Body(const Request& request, std::string_view) const {
  const Sampling& sampling = request.sampling;
  Json contents = Json::array();
  for (const Message& message : request.messages) {
    contents.push_back({{"role", message.role == Role::kUser ? "user" : "model"},
                        {"parts", Json::array({{{"text", message.text}}})}});
  }
  Json config = {{"maxOutputTokens", *sampling.max_tokens}};
  if (sampling.temperature) config["temperature"] = *sampling.temperature;
  if (sampling.seed) config["seed"] = *sampling.seed;
  if (sampling.effort) config["thinkingConfig"]["thinkingLevel"] = *sampling.effort;
  if (sampling.thinking_tokens) {
    config["thinkingConfig"]["thinkingBudget"] = *sampling.thinking_tokens;
  }
  Json body = Json::object();
  if (!request.system.empty()) {
    body["systemInstruction"] = {{"parts", Json::array({{{"text", request.system}}})}};
  }
  body["contents"] = std::move(contents);
  body["generationConfig"] = std::move(config);
  return body;
}

void GeminiWire::Read(const Json& event, Incoming& incoming) const {
  if (!At(event, "error").is_null()) {
    incoming.error = ReadServiceError(event);
    return;
  }
  Answer& answer = incoming.answer;
  if (answer.model.empty()) answer.model = TextAt(event, "modelVersion");
  const Json& candidates = At(event, "candidates");
  if (candidates.is_array() && !candidates.empty()) {
    for (const Json& part : At(At(candidates[0], "content"), "parts")) {
      const Json& thought = At(part, "thought");
      const bool reasoning = thought.is_boolean() && thought.get<bool>();
      (reasoning ? answer.reasoning : answer.text) += TextAt(part, "text");
    }
    const std::string_view reason = TextAt(candidates[0], "finishReason");
    if (!reason.empty()) {
      answer.stop = GeminiStop(reason);
      incoming.ended = true;
    }
  }
  if (!TextAt(At(event, "promptFeedback"), "blockReason").empty()) {
    answer.stop = Stop::kRefusal;
    incoming.ended = true;
  }
  ReadGeminiUsage(At(event, "usageMetadata"), incoming);
}

}  // namespace cupel::llm
