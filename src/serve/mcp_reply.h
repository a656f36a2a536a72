// What an MCP server says, as JSON of the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/json.h"
#include "serve/mcp_message.h"
#include "serve/mcp_offer.h"

namespace cupel::serve {

/// Those that begin with `initialize`, the newest first, and the one that does not.
inline constexpr std::array kMcpRevisions = {"2025-11-25", "2025-06-18", "2025-03-26",
                                             "2024-11-05"};
inline constexpr const char* kMcpStatelessRevision = "2026-07-28";
/// In it alone, a line may be an array of messages.
inline constexpr const char* kMcpBatchRevision = "2025-03-26";

/// In _meta of every request of the stateless revision.
inline constexpr const char* kMcpMetaRevision = "io.modelcontextprotocol/protocolVersion";
inline constexpr const char* kMcpMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";

Json McpServerInfo();
Json McpCapabilities();
Json McpToolJson(const McpTool& tool);
Json McpAnswerJson(const McpAnswer& answer);
Json McpResourcesJson(const std::vector<McpResource>& resources);
Json McpTextsJson(const std::vector<McpText>& texts);

/// What the stateless revision adds to a result, and to one that clients may keep for a while.
void AddStatelessMembers(Json& result, bool is_cacheable);
RpcError UnsupportedRevision(const Json& requested);
RpcError InvalidParams(std::string message);

}  // namespace cupel::serve
