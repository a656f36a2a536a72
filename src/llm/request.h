// Questions to a model and its answers, as plain data with a JSON form (docs/models.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::llm {

enum class Role { kUser, kAssistant };

struct Message {
  Role role = Role::kUser;
  std::string text;
};

/// For `thinking_tokens`: the model decides.
inline constexpr int64_t kAdaptiveThinking = -1;

/// Unset members come from the model's spec, otherwise from the provider's defaults.
struct Sampling {
  std::optional<int64_t> max_tokens;  // of the answer, including its reasoning
  std::optional<double> temperature;
  std::optional<std::string> effort;       // the provider's term: "low", "high" …
  std::optional<int64_t> thinking_tokens;  // or kAdaptiveThinking
  std::optional<int64_t> seed;             // sent if the wire format supports it
};

struct Request {
  std::string model;  // "provider:name"; the Client fills it in
  std::string system;
  std::vector<Message> messages;  // the last one is a user message
  Sampling sampling;
  /// Distinguishes several questions with the same prompt.
  int64_t sample = 0;
};

struct Usage {
  int64_t input_tokens = 0;   // total
  int64_t cached_tokens = 0;  // part of the input that came from the provider's cache
  int64_t output_tokens = 0;  // including reasoning
};

enum class Stop {
  kEnd,      // the model finished its answer
  kLength,   // max_tokens was reached: the text is cut
  kRefusal,  // the model or the provider's filter declined; the text may be empty
  kOther,
};

struct Answer {
  std::string text;
  std::string reasoning;  // if the provider shows it
  Stop stop = Stop::kOther;
  std::string model;  // the provider's name for the model that answered
  Usage usage;
  /// If true, the usage was not reported, and `usage` and `usd` are upper bounds.
  bool usage_bound = false;
  double usd = 0;
};

const char* StopName(Stop stop);

/// SHA-256 over all members. Identifies a request in mailboxes and transcripts.
std::string HashOf(const Request& request);
/// The same without the model.
std::string PromptHashOf(const Request& request);
/// System text and messages as one text with headings, for programs and people.
std::string PlainText(const Request& request);

Json ToJson(const Request& request);
Json ToJson(const Answer& answer);
Result<Request> RequestFromJson(const Json& json, std::string_view what);
Result<Answer> AnswerFromJson(const Json& json, std::string_view what);

/// `text` with invalid UTF-8 replaced, as in JSON. So the same text is sent, hashed, recorded and
/// replayed.
std::string ValidUtf8(const std::string& text);

/// Converts external text for a message: one line, printable, at most `max` bytes.
std::string Shown(std::string_view text, size_t max = 300);

}  // namespace cupel::llm
