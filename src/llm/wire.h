// The formats in which web services are asked and answer: what a request's body is, and what an
// event of the answer's stream adds to it. No input or output here.
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

/// An answer that is coming in.
struct Incoming {
  Answer answer;
  bool has_usage = false;             // answer.usage is what will be billed
  bool ended = false;                 // the model's last word has come; only usage may follow
  bool closed = false;                // nothing more will come
  std::optional<ServiceError> error;  // said within the stream
};

/// Stateless.
class Wire {
 public:
  virtual ~Wire() = default;
  /// What follows the base URL.
  virtual std::string Path(std::string_view model) const = 0;
  /// "x-api-key: ": the key follows.
  virtual std::string_view KeyHeader() const = 0;
  /// Further headers, empty where there are none.
  virtual std::string_view VersionHeader() const { return ""; }
  virtual Json Body(const Request& request, std::string_view model) const = 0;
  /// Adds an event's object to the answer. Members of the wrong type count as absent: what must be
  /// there shows at the end, as an answer that never ended.
  virtual void Read(const Json& event, Incoming& incoming) const = 0;
};

/// `strict_openai`: api.openai.com itself, whose newer models refuse "max_tokens".
const Wire& WireOf(WireFormat format, bool strict_openai = false);

/// Error bodies look alike everywhere: {"error": {"message", "type" or "code" or "status"}}, with
/// Gemini's RetryInfo among its details. Anything else becomes the message itself.
ServiceError ReadServiceError(const Json& error);

// For the formats' own files: lenient access.
/// The member, or null where `json` is no object or has none.
const Json& At(const Json& json, const char* key);
std::string_view TextAt(const Json& json, const char* key);
/// A count of tokens; 0 when it is absent or absurd.
int64_t CountAt(const Json& json, const char* key);

}  // namespace cupel::llm
