// The wire formats of web services: builds the body of a request, and adds events of the answer
// stream to an answer. Does no I/O.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "llm/request.h"
#include "llm/retry.h"

namespace cupel::llm {

enum class WireFormat { kAnthropic, kOpenAiChat, kOpenAiResponses, kGemini };

/// An answer that is being received.
struct Incoming {
  Answer answer;
  bool has_usage = false;             // answer.usage will be billed
  bool ended = false;                 // the text is complete; only usage may follow
  bool closed = false;                // no more events follow
  std::optional<ServiceError> error;  // from within the stream
};

/// Stateless.
class Wire {
 public:
  virtual ~Wire() = default;
  /// The path after the base URL.
  virtual std::string Path(std::string_view model) const = 0;
  /// "x-api-key: ": the key follows.
  virtual std::string_view KeyHeader() const = 0;
  /// A further header; empty if there is none.
  virtual std::string_view VersionHeader() const { return ""; }
  virtual Json Body(const Request& request, std::string_view model) const = 0;
  /// Adds an event's object to the answer. Members of the wrong type count as absent; without
  /// required members the answer never ends.
  virtual void Read(const Json& event, Incoming& incoming) const = 0;
};

/// `strict_openai`: for api.openai.com itself, whose newer models reject "max_tokens".
const Wire& WireOf(WireFormat format, bool strict_openai = false);

/// Reads an error body: {"error": {"message", "type" or "code" or "status"}}, with Gemini's
/// RetryInfo in its details. An error that is a string becomes the message.
ServiceError ReadServiceError(const Json& error);

// Lenient access, for the files of the formats.
/// The member, or null if `json` is not an object or has no such member.
const Json& At(const Json& json, const char* key);
std::string_view TextAt(const Json& json, const char* key);
/// A count of tokens; 0 if it is absent or not plausible.
int64_t CountAt(const Json& json, const char* key);

}  // namespace cupel::llm
