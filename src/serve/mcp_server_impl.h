// The parts of a running McpServer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "serve/mcp_server.h"

namespace cupel::serve {

/// The responses of a batch, sent together when all of them are there.
struct McpServer::Batch {
  size_t missing = 0;
  Json responses = Json::array();
};

struct McpServer::Request {
  Json id;
  std::string method;
  Json params, meta;
  bool is_stateless = false;
  std::shared_ptr<Batch> batch;  // null: answered alone
};

/// A tool call, which runs in its own thread.
struct McpServer::Call final : McpCall {
  Call(McpServer& its_server, Request its_request, const McpTool& its_tool, Json its_arguments);
  std::stop_token stop() const override { return stop_source.get_token(); }
  bool is_stopped() const { return stop_source.stop_requested(); }
  void Show(std::string_view message, double done, std::optional<double> total) override;

  McpServer& server;
  const Request request;
  const McpTool& tool;
  const Json arguments;
  Json token;  // null: the client did not ask for progress
  double shown = 0;
  std::stop_source stop_source;
  bool is_done = false;  // guarded by the server's mutex
  std::thread thread;
};

}  // namespace cupel::serve
