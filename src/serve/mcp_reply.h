// The messages of an MCP server as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/json.h"
#include "serve/mcp_message.h"
#include "serve/mcp_offer.h"

namespace cupel::serve {

/// The revisions that begin with `initialize`, newest first, and the stateless one.
inline constexpr std::array kMcpRevisions = {"2025-11-25", "2025-06-18", "2025-03-26",
                                             "2024-11-05"};
inline constexpr const char* kMcpStatelessRevision = "2026-07-28";
/// The only revision in which a line may be an array of messages.
inline constexpr const char* kMcpBatchRevision = "2025-03-26";

/// Keys in _meta of every request of the stateless revision.
inline constexpr const char* kMcpMetaRevision = "io.modelcontextprotocol/protocolVersion";
inline constexpr const char* kMcpMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";

Json McpServerInfo();
Json McpCapabilities();
Json McpToolJson(const McpTool& tool);
Json McpAnswerJson(const McpAnswer& answer);
Json McpResourcesJson(const std::vector<McpResource>& resources);
Json McpTextsJson(const std::vector<McpText>& texts);

/// Adds the members that the stateless revision requires in a result. `is_cacheable`: clients may
/// keep it for a while.
void AddStatelessMembers(Json& result, bool is_cacheable);
RpcError UnsupportedRevision(const Json& requested);
RpcError InvalidParams(std::string message);

}  // namespace cupel::serve
