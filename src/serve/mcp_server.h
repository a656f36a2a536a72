// A server of the Model Context Protocol, revisions 2024-11-05 to 2026-07-28
// (https://modelcontextprotocol.io/specification): takes lines, sends lines. Until 2025-11-25 a
// client begins with `initialize`, and what was agreed there holds; from 2026-07-28 every request
// says its revision, and nothing is remembered. Both may be mixed.
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

/// Take, Refuse and Wait are for one thread.
class McpServer {
 public:
  /// `send` gets whole lines without their end, one at a time, from any thread.
  McpServer(McpOffer offer, std::function<void(const std::string& line)> send);
  /// Stops all calls, waits until they have ended, and answers none of them.
  ~McpServer();
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  /// One line from the client. Calls of tools go on after it returns, each in its own thread.
  void Take(std::string_view line);
  /// For a line that could not be taken.
  void Refuse(const RpcError& error);
  /// Until all calls have ended.
  void Wait();

 private:
  struct Call;
  struct Batch;
  struct Request;

  void TakeMessage(RpcMessage message, const std::shared_ptr<Batch>& batch);
  void Dispatch(Request& request);
  void Initialize(Request& request);
  void CallTool(Request& request);
  /// Why not.
  std::optional<RpcError> Begin(const Request& request, const McpTool& tool, Json arguments);
  void ReadResource(Request& request);
  void Cancel(const Json& params);

  // In the call's own thread.
  void Run(Call& call);
  /// False: it was stopped before its turn came.
  bool AwaitTurn(Call& call);

  void Reap();
  void Reply(const Request& request, Json result, bool is_cacheable = false);
  void Reply(const Request& request, const RpcError& error);
  // Both under the mutex.
  /// A null response: a cancelled request, which gets none.
  void Deliver(Json response, const std::shared_ptr<Batch>& batch);
  void Send(const Json& message);

  const McpOffer offer_;
  const std::function<void(const std::string& line)> send_;
  std::string revision_;  // that `initialize` agreed on; empty before it

  std::mutex mutex_;  // guards what follows, and what is sent
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Call>> calls_;  // by id, as JSON
  int heavy_ = 0;                                       // under way
};

}  // namespace cupel::serve
