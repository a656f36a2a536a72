// What an MCP server offers: tools, and texts to read. The program fills it in; the server knows
// the protocol alone. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::serve {

/// What a tool has of the call that it answers. Used by the call's own thread.
class McpCall {
 public:
  virtual ~McpCall() = default;
  /// Set when nobody waits for the answer any more: stop, whatever is returned is dropped.
  virtual const std::atomic<bool>& stop() const = 0;
  /// Tells the client how far the work is, where it wants to know.
  virtual void Show(std::string_view message, double done, std::optional<double> total) = 0;
};

struct McpAnswer {
  std::string text;       // for a model or a person
  Json structured;        // an object as the tool's output schema says; null: none
  bool is_error = false;  // the tool could not do its work; the text says why and what to do
};

McpAnswer McpFailure(const Error& error);

struct McpTool {
  std::string name, title, description;
  Json input = Json::object(), output = Json::object();  // schemas; no output: text alone
  bool is_heavy = false;     // uses the machine for long: waits for its turn
  bool asks_others = false;  // sends what it is given to services elsewhere
  /// Arguments are as `input` says. Called in any thread, several at a time.
  std::function<McpAnswer(const Json& arguments, McpCall& call)> run;
};

struct McpResource {
  std::string uri, name, title, mime_type;
};

struct McpText {
  std::string uri, mime_type, text;
};

struct McpOffer {
  std::string instructions;  // to the model, how to use the tools
  std::vector<McpTool> tools;
  std::function<Result<std::vector<McpResource>>()> list_resources;
  /// The texts of one resource; none: there is no such resource.
  std::function<Result<std::vector<McpText>>(const std::string& uri)> read_resource;
  int jobs = 1;  // heavy calls at a time
};

}  // namespace cupel::serve
