// A server of the Model Context Protocol, revisions 2024-11-05 to 2026-07-28
// (https://modelcontextprotocol.io/specification). It receives and sends lines. Until revision
// 2025-11-25 a client begins with `initialize`, which sets the revision of the session. From
// 2026-07-28 on every request names its revision, and the server keeps no state. Both may be mixed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/mcp_message.h"
#include "serve/mcp_offer.h"

namespace cupel::serve {

/// Call Take, Refuse and Wait from one thread.
class McpServer {
 public:
  /// `send` receives complete lines without their line end, one at a time, on any thread.
  McpServer(McpOffer offer, std::function<void(const std::string& line)> send);
  /// Stops all calls and waits until they have ended. They get no answers.
  ~McpServer();
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  /// Handles one line from the client. Tool calls continue after it returns, each in its own
  /// thread.
  void Take(std::string_view line);
  /// Answers a line that could not be read.
  void Refuse(const RpcError& error);
  /// Waits until all calls have ended.
  void Wait();

 private:
  struct Call;
  struct Batch;
  struct Request;

  void TakeMessage(RpcMessage message, const std::shared_ptr<Batch>& batch);
  void Dispatch(Request& request);
  void Initialize(Request& request);
  void CallTool(Request& request);
  /// Starts a call. Returns an error if it cannot start.
  std::optional<RpcError> Begin(const Request& request, const McpTool& tool, Json arguments);
  void ReadResource(Request& request);
  void Cancel(const Json& params);

  // In the call's own thread.
  void Run(Call& call);
  /// False if the call was stopped before its turn came.
  bool AwaitTurn(Call& call);

  void Reap();
  void Reply(const Request& request, Json result, bool is_cacheable = false);
  void Reply(const Request& request, const RpcError& error);
  // For both, hold the mutex.
  /// A null response means that the request was cancelled and gets no answer.
  void Deliver(Json response, const std::shared_ptr<Batch>& batch);
  void Send(const Json& message);

  const McpOffer offer_;
  const std::function<void(const std::string& line)> send_;
  std::string revision_;  // set by `initialize`; empty before

  std::mutex mutex_;  // guards the members below, and sending
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Call>> calls_;  // by id, as JSON
  int heavy_ = 0;                                       // heavy calls that are running
};

}  // namespace cupel::serve
