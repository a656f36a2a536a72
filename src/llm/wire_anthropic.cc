// Anthropic's messages. An answer consists of message_start (usage of the input),
// content_block_delta …, message_delta (stop reason, final usage) and message_stop. Ignores ping
// and unknown events.
// SPDX-License-Identifier: Apache-2.0
#include "llm/wire_formats.h"

namespace cupel::llm {
namespace {

/// Anthropic's input counts exclude cached tokens; ours include them.
void ReadAnthropicUsage(const Json& usage, Incoming& incoming) {
  Usage& into = incoming.answer.usage;
  if (At(usage, "input_tokens").is_number_integer()) {
    into.cached_tokens = CountAt(usage, "cache_read_input_tokens");
    into.input_tokens = CountAt(usage, "input_tokens") + into.cached_tokens +
                        CountAt(usage, "cache_creation_input_tokens");
  }
  if (At(usage, "output_tokens").is_number_integer()) {
    into.output_tokens = CountAt(usage, "output_tokens");
  }
}

Stop AnthropicStop(std::string_view reason) {
  if (reason == "end_turn" || reason == "stop_sequence") return Stop::kEnd;
  if (reason == "max_tokens" || reason == "model_context_window_exceeded") return Stop::kLength;
  if (reason == "refusal") return Stop::kRefusal;
  return Stop::kOther;
}

}  // namespace

Json AnthropicWire::Body(const Request& request, std::string_view model) const {
  const Sampling& sampling = request.sampling;
  Json messages = Json::array();
  for (const Message& message : request.messages) {
    messages.push_back(
        {{"role", message.role == Role::kUser ? "user" : "assistant"}, {"content", message.text}});
  }
  Json body = {{"model", model}, {"max_tokens", *sampling.max_tokens}, {"stream", true}};
  if (!request.system.empty()) body["system"] = request.system;
  body["messages"] = std::move(messages);
  if (sampling.temperature) body["temperature"] = *sampling.temperature;
  if (sampling.effort) body["output_config"] = {{"effort", *sampling.effort}};
  if (sampling.thinking_tokens == kAdaptiveThinking) {
    body["thinking"] = {{"type", "adaptive"}};
  } else if (sampling.thinking_tokens == 0) {
    body["thinking"] = {{"type", "disabled"}};
  } else if (sampling.thinking_tokens) {
    body["thinking"] = {{"type", "enabled"}, {"budget_tokens", *sampling.thinking_tokens}};
  }
  return body;
}

void AnthropicWire::Read(const Json& event, Incoming& incoming) const {
  Answer& answer = incoming.answer;
  const std::string_view type = TextAt(event, "type");
  if (type == "message_start") {
    const Json& message = At(event, "message");
    answer.model = TextAt(message, "model");
    ReadAnthropicUsage(At(message, "usage"), incoming);
  } else if (type == "content_block_delta") {
    const Json& delta = At(event, "delta");
    answer.text += TextAt(delta, "text");
    answer.reasoning += TextAt(delta, "thinking");
  } else if (type == "message_delta") {
    const std::string_view reason = TextAt(At(event, "delta"), "stop_reason");
    if (!reason.empty()) {
      answer.stop = AnthropicStop(reason);
      incoming.ended = true;
    }
    ReadAnthropicUsage(At(event, "usage"), incoming);
    incoming.has_usage = incoming.has_usage || At(event, "usage").is_object();
  } else if (type == "message_stop") {
    incoming.closed = true;
  } else if (type == "error") {
    incoming.error = ReadServiceError(event);
  }
}

}  // namespace cupel::llm
