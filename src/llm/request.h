// What a model is asked and what it answers, as plain data with a JSON form (docs/models.md).
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

/// "As the model sees fit", for `thinking_tokens`.
inline constexpr int64_t kAdaptiveThinking = -1;

/// Unset members are left to the model's spec, and then to the provider.
struct Sampling {
  std::optional<int64_t> max_tokens;  // of the answer, its reasoning included
  std::optional<double> temperature;
  std::optional<std::string> effort;       // the provider's word: "low", "high" …
  std::optional<int64_t> thinking_tokens;  // or kAdaptiveThinking
  std::optional<int64_t> seed;             // sent where the wire format has one
};

struct Request {
  std::string model;  // "provider:name"; the Client fills it in
  std::string system;
  std::vector<Message> messages;  // the last one is the user's
  Sampling sampling;
  /// Tells apart several answers that are wanted to one prompt.
  int64_t sample = 0;
};

struct Usage {
  int64_t input_tokens = 0;   // all of them
  int64_t cached_tokens = 0;  // those of the input that came from the provider's cache
  int64_t output_tokens = 0;  // reasoning included
};

enum class Stop {
  kEnd,      // the model had said what it wanted
  kLength,   // max_tokens came first: the text is cut
  kRefusal,  // the model or the provider's filter declined; the text may be empty
  kOther,
};

struct Answer {
  std::string text;
  std::string reasoning;  // what the provider shows of it
  Stop stop = Stop::kOther;
  std::string model;  // as the provider names what answered
  Usage usage;
  /// The usage was not reported: `usage` and `usd` are the most that it can have been.
  bool usage_bound = false;
  double usd = 0;
};

const char* StopName(Stop stop);

/// SHA-256 over every member: the name of a request in mailboxes and transcripts.
std::string HashOf(const Request& request);
/// The same without the model.
std::string PromptHashOf(const Request& request);
/// System and messages as one text under headings, for programs and people.
std::string PlainText(const Request& request);

Json ToJson(const Request& request);
Json ToJson(const Answer& answer);
Result<Request> RequestFromJson(const Json& json, std::string_view what);
Result<Answer> AnswerFromJson(const Json& json, std::string_view what);

/// `text` with what is no UTF-8 replaced, as JSON will hold it: what is asked, hashed, recorded and
/// replayed is then the same.
std::string ValidUtf8(const std::string& text);

/// Text from outside made fit for a message: one line, printable, at most `max` bytes.
std::string Shown(std::string_view text, size_t max = 300);

}  // namespace cupel::llm
