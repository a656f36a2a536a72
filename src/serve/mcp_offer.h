// What an MCP server offers: tools and readable texts. The program fills it in; the server only
// implements the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::serve {

/// A tool's interface to the call that it is answering. Used by the call's own thread.
class McpCall {
 public:
  virtual ~McpCall() = default;
  /// Stopped when the call is cancelled. The tool must end; its answer is dropped.
  virtual std::stop_token stop() const = 0;
  /// Reports progress to the client, if the client asked for it.
  virtual void Show(std::string_view message, double done, std::optional<double> total) = 0;
};

struct McpAnswer {
  std::string text;       // for a model or a person
  Json structured;        // an object that matches the tool's output schema; null: none
  bool is_error = false;  // the tool failed; the text says why and what to do
};

McpAnswer McpFailure(const Error& error);

struct McpTool {
  std::string name, title, description;
  Json input = Json::object(), output = Json::object();  // schemas; empty output: only text
  bool is_heavy = false;     // uses the machine for a long time, so it waits for its turn
  bool asks_others = false;  // sends its arguments to external services
  /// `arguments` match `input`. Called in any thread, also in several at the same time.
  std::function<McpAnswer(const Json& arguments, McpCall& call)> run;
};

struct McpResource {
  std::string uri, name, title, mime_type;
};

struct McpText {
  std::string uri, mime_type, text;
};

struct McpOffer {
  std::string instructions;  // tell the model how to use the tools
  std::vector<McpTool> tools;
  std::function<Result<std::vector<McpResource>>()> list_resources;
  /// The texts of one resource; empty if the resource does not exist.
  std::function<Result<std::vector<McpText>>(const std::string& uri)> read_resource;
  int jobs = 1;  // heavy calls that may run at the same time
};

}  // namespace cupel::serve
