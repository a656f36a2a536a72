// The classes behind WireOf.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llm/wire.h"

namespace cupel::llm {

/// https://docs.anthropic.com/en/api/messages
class AnthropicWire : public Wire {
 public:
  std::string Path(std::string_view) const override { return "/messages"; }
  std::string_view KeyHeader() const override { return "x-api-key: "; }
  std::string_view VersionHeader() const override { return "anthropic-version: 2023-06-01"; }
  Json Body(const Request& request, std::string_view model) const override;
  void Read(const Json& event, Incoming& incoming) const override;
};

/// https://platform.openai.com/docs/api-reference/chat, also used by many other services.
class OpenAiChatWire : public Wire {
 public:
  explicit OpenAiChatWire(bool strict) : strict_(strict) {}
  std::string Path(std::string_view) const override { return "/chat/completions"; }
  std::string_view KeyHeader() const override { return "Authorization: Bearer "; }
  Json Body(const Request& request, std::string_view model) const override;
  void Read(const Json& event, Incoming& incoming) const override;

 private:
  bool strict_;
};

/// https://platform.openai.com/docs/api-reference/responses
class OpenAiResponsesWire : public Wire {
 public:
  std::string Path(std::string_view) const override { return "/responses"; }
  std::string_view KeyHeader() const override { return "Authorization: Bearer "; }
  Json Body(const Request& request, std::string_view model) const override;
  void Read(const Json& event, Incoming& incoming) const override;
};

/// https://ai.google.dev/api/generate-content
class GeminiWire : public Wire {
 public:
  std::string Path(std::string_view model) const override;
  std::string_view KeyHeader() const override { return "x-goog-api-key: "; }
  Json Body(const Request& request, std::string_view model) const override;
  void Read(const Json& event, Incoming& incoming) const override;
};

}  // namespace cupel::llm
