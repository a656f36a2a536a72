// OpenAI's responses. An answer consists of response.output_text.delta … and finally
// response.completed, .incomplete or .failed with the whole response and its usage. The provider is
// asked to store nothing.
// SPDX-License-Identifier: Apache-2.0
#include "llm/wire_formats.h"

namespace cupel::llm {
namespace {

void ReadResponsesUsage(const Json& usage, Incoming& incoming) {
  if (!At(usage, "input_tokens").is_number_integer()) return;
  Usage& into = incoming.answer.usage;
  into.input_tokens = CountAt(usage, "input_tokens");
  into.output_tokens = CountAt(usage, "output_tokens");
  into.cached_tokens = CountAt(At(usage, "input_tokens_details"), "cached_tokens");
  incoming.has_usage = true;
}

void End(const Json& response, std::string_view type, Incoming& incoming) {
  Answer& answer = incoming.answer;
  answer.model = TextAt(response, "model");
  ReadResponsesUsage(At(response, "usage"), incoming);
  incoming.ended = incoming.closed = true;
  if (type == "response.failed") {
    incoming.error = ReadServiceError(response);
  } else if (answer.stop == Stop::kRefusal) {
    return;
  } else if (type == "response.completed") {
    answer.stop = Stop::kEnd;
  } else {
    const std::string_view reason = TextAt(At(response, "incomplete_details"), "reason");
    if (reason == "max_output_tokens") answer.stop = Stop::kLength;
    if (reason == "content_filter") answer.stop = Stop::kRefusal;
  }
}

}  // namespace

Json OpenAiResponsesWire::Body(const Request& request, std::string_view model) const {
  const Sampling& sampling = request.sampling;
  Json input = Json::array();
  for (const Message& message : request.messages) {
    input.push_back(
        {{"role", message.role == Role::kUser ? "user" : "assistant"}, {"content", message.text}});
  }
  Json body = {{"model", model}};
  if (!request.system.empty()) body["instructions"] = request.system;
  body["input"] = std::move(input);
  body["max_output_tokens"] = *sampling.max_tokens;
  body["stream"] = true;
  body["store"] = false;
  if (sampling.temperature) body["temperature"] = *sampling.temperature;
  if (sampling.effort) body["reasoning"] = {{"effort", *sampling.effort}};
  return body;
}

void OpenAiResponsesWire::Read(const Json& event, Incoming& incoming) const {
  Answer& answer = incoming.answer;
  const std::string_view type = TextAt(event, "type");
  if (type == "response.output_text.delta") {
    answer.text += TextAt(event, "delta");
  } else if (type == "response.refusal.delta") {
    answer.text += TextAt(event, "delta");
    answer.stop = Stop::kRefusal;
  } else if (type == "response.reasoning_summary_text.delta" ||
             type == "response.reasoning_text.delta") {
    answer.reasoning += TextAt(event, "delta");
  } else if (type == "response.completed" || type == "response.incomplete" ||
             type == "response.failed") {
    End(At(event, "response"), type, incoming);
  } else if (type == "error") {
    incoming.error = ReadServiceError(event);
  }
}

}  // namespace cupel::llm
