// SPDX-License-Identifier: Apache-2.0
#include "llm/wire.h"

#include "llm/wire_formats.h"

namespace cupel::llm {
namespace {

constexpr int64_t kMaxCount = 1'000'000'000'000;

}  // namespace

const Wire& WireOf(WireFormat format, bool strict_openai) {
  static const AnthropicWire anthropic;
  static const OpenAiChatWire chat(false), strict_chat(true);
  static const OpenAiResponsesWire responses;
  static const GeminiWire gemini;
  switch (format) {
    case WireFormat::kAnthropic:
      return anthropic;
    case WireFormat::kOpenAiChat:
      return strict_openai ? strict_chat : chat;
    case WireFormat::kOpenAiResponses:
      return responses;
    case WireFormat::kGemini:
      return gemini;
  }
  return chat;
}

const Json& At(const Json& json, const char* key) {
  static const Json null;
  if (!json.is_object()) return null;
  const auto it = json.find(key);
  return it == json.end() ? null : *it;
}

std::string_view TextAt(const Json& json, const char* key) {
  const Json& member = At(json, key);
  if (!member.is_string()) return {};
  return member.get_ref<const std::string&>();
}

int64_t CountAt(const Json& json, const char* key) {
  const Json& member = At(json, key);
  if (!member.is_number_integer()) return 0;
  if (member.is_number_unsigned() && member.get<uint64_t>() > uint64_t{kMaxCount}) return 0;
  const auto count = member.get<int64_t>();
  return count < 0 || count > kMaxCount ? 0 : count;
}

ServiceError ReadServiceError(const Json& json) {
  // Gemini may wrap its error in an array.
  if (json.is_array() && !json.empty()) return ReadServiceError(json[0]);
  const Json& inner = At(json, "error").is_null() ? json : At(json, "error");
  ServiceError error;
  if (inner.is_string()) {
    error.message = inner.get<std::string>();
    return error;
  }
  error.message = TextAt(inner, "message");
  for (const char* key : {"code", "type", "status"}) {
    if (!TextAt(inner, key).empty() && TextAt(inner, key) != "error") {
      if (!error.type.empty()) error.type += ' ';
      error.type += TextAt(inner, key);
    }
  }
  // If the error comes from a service behind this service, the code is the status of that service.
  if (const int64_t code = CountAt(inner, "code"); code >= 400 && code < 600) {
    error.status = static_cast<int>(code);
  }
  for (const Json& detail : At(inner, "details")) {
    std::string_view delay = TextAt(detail, "retryDelay");  // "34s"
    if (!delay.ends_with('s')) continue;
    delay.remove_suffix(1);
    error.retry_after = ParseRetryAfter(delay, 0);
  }
  return error;
}

}  // namespace cupel::llm
