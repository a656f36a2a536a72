// OpenAI's chat completions, as used by OpenAI, DeepSeek, OpenRouter, Together, vLLM, llama.cpp and
// Ollama. An answer consists of chunks with choices[0].delta, a chunk with the usage, which must be
// requested, and [DONE], which the stream reader handles. Reasoning is called reasoning_content or
// reasoning. A server that does not stream sends choices[0].message instead.
// SPDX-License-Identifier: Apache-2.0
#include "llm/wire_formats.h"

namespace cupel::llm {
namespace {

Stop ChatStop(std::string_view reason) {
  if (reason == "stop" || reason == "eos") return Stop::kEnd;
  if (reason == "length") return Stop::kLength;
  if (reason == "content_filter") return Stop::kRefusal;
  return Stop::kOther;
}

void ReadChatUsage(const Json& usage, Incoming& incoming) {
  if (!At(usage, "prompt_tokens").is_number_integer()) return;
  Usage& into = incoming.answer.usage;
  into.input_tokens = CountAt(usage, "prompt_tokens");
  into.output_tokens = CountAt(usage, "completion_tokens");
  into.cached_tokens = CountAt(At(usage, "prompt_tokens_details"), "cached_tokens");
  if (into.cached_tokens == 0) into.cached_tokens = CountAt(usage, "prompt_cache_hit_tokens");
  incoming.has_usage = true;
}

void ReadChoice(const Json& choice, Incoming& incoming) {
  Answer& answer = incoming.answer;
  const Json& delta = At(choice, At(choice, "delta").is_object() ? "delta" : "message");
  answer.text += TextAt(delta, "content");
  const std::string_view reasoning = TextAt(delta, "reasoning_content");
  answer.reasoning += reasoning.empty() ? TextAt(delta, "reasoning") : reasoning;
  const std::string_view refusal = TextAt(delta, "refusal");
  if (!refusal.empty()) {
    answer.text += refusal;
    answer.stop = Stop::kRefusal;
  }
  const std::string_view reason = TextAt(choice, "finish_reason");
  if (reason.empty()) return;
  incoming.ended = true;
  if (answer.stop != Stop::kRefusal) answer.stop = ChatStop(reason);
}

}  // namespace

Json OpenAiChatWire::Body(const Request& request, std::string_view model) const {
  const Sampling& sampling = request.sampling;
  Json messages = Json::array();
  if (!request.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", request.system}});
  }
  for (const Message& message : request.messages) {
    messages.push_back(
        {{"role", message.role == Role::kUser ? "user" : "assistant"}, {"content", message.text}});
  }
  Json body = {{"model", model},
               {"messages", std::move(messages)},
               {strict_ ? "max_completion_tokens" : "max_tokens", *sampling.max_tokens},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (sampling.temperature) body["temperature"] = *sampling.temperature;
  if (sampling.effort) body["reasoning_effort"] = *sampling.effort;
  if (sampling.seed) body["seed"] = *sampling.seed;
  return body;
}

void OpenAiChatWire::Read(const Json& event, Incoming& incoming) const {
  if (!At(event, "error").is_null()) {
    incoming.error = ReadServiceError(event);
    return;
  }
  if (incoming.answer.model.empty()) incoming.answer.model = TextAt(event, "model");
  const Json& choices = At(event, "choices");
  if (choices.is_array() && !choices.empty()) ReadChoice(choices[0], incoming);
  ReadChatUsage(At(event, "usage"), incoming);
}

}  // namespace cupel::llm
