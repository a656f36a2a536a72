// Streams of answers. The events do not depend on how the bytes are split, and every wire format
// accepts every event.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "base/json.h"
#include "harness.h"
#include "llm/sse.h"
#include "llm/wire.h"

namespace cupel::fuzz {
namespace {

struct Outcome {
  std::vector<std::string> events;
  bool sound = true;
  bool operator==(const Outcome&) const = default;
};

Outcome Read(std::string_view input, size_t step) {
  constexpr size_t kMaxEventBytes = 4096;
  Outcome outcome;
  llm::SseParser parser(
      [&](std::string_view event, std::string_view data) {
        outcome.events.push_back(std::string(event) + '\0' + std::string(data));
        return true;
      },
      kMaxEventBytes);
  for (size_t at = 0; at < input.size() && outcome.sound; at += step) {
    outcome.sound = parser.Feed(input.substr(at, step)).has_value();
  }
  if (outcome.sound) outcome.sound = parser.Finish().has_value();
  return outcome;
}

}  // namespace

void RunOne(std::string_view input) {
  const Outcome whole = Read(input, input.size() + 1);
  for (const size_t step : {1, 2, 7}) CHECK(Read(input, step) == whole);
  llm::Incoming incoming[4];
  for (const std::string& event : whole.events) {
    const auto json = ParseJson(std::string_view(event).substr(event.find('\0') + 1), "event");
    if (!json) continue;
    llm::ReadServiceError(*json);
    int i = 0;
    for (const auto format : {llm::WireFormat::kAnthropic, llm::WireFormat::kOpenAiChat,
                              llm::WireFormat::kOpenAiResponses, llm::WireFormat::kGemini}) {
      llm::WireOf(format).Read(*json, incoming[i]);
      const llm::Usage& usage = incoming[i++].answer.usage;
      CHECK(usage.input_tokens >= 0 && usage.output_tokens >= 0 && usage.cached_tokens >= 0);
    }
  }
}

}  // namespace cupel::fuzz
