// Messages of the Model Context Protocol (MCP): JSON-RPC 2.0, one per line, from an untrusted
// client. A line contains requests and notifications, or it is invalid and gets an error as answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"

namespace cupel::serve {

/// Longer lines are rejected. A kernel's source has at most 4 MiB, but more when it is escaped.
inline constexpr size_t kLongestMcpLine = 16u << 20;

/// The codes of JSON-RPC, and those that MCP adds.
enum class RpcCode {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kResourceNotFound = -32002,    // until revision 2025-11-25
  kUnsupportedVersion = -32022,  // from revision 2026-07-28
};

struct RpcError {
  RpcCode code = RpcCode::kInternalError;
  std::string message;
  Json data;  // null: none
};

struct RpcMessage {
  Json id;  // text or integer; null: a notification, which is not answered
  std::string method;
  Json params = Json::object();
};

/// An invalid message. `id` is the request's, or null if it is invalid too.
struct RpcRefusal {
  Json id;
  RpcError error;
};

using RpcItem = std::variant<RpcMessage, RpcRefusal>;

struct RpcLine {
  std::vector<RpcItem> items;  // without responses, which a server ignores
  bool is_batch = false;       // an array of messages, which one revision allows
};

/// Never fails: an invalid line gives a refusal, an empty line gives no items.
RpcLine ReadRpc(std::string_view line);

Json RpcResponse(const Json& id, Json result);
Json RpcResponse(const Json& id, const RpcError& error);
Json RpcNotification(std::string_view method, Json params);

}  // namespace cupel::serve
