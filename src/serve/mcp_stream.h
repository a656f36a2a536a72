// The stdio transport of MCP: lines from a descriptor to a server until the client closes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "serve/mcp_server.h"

namespace cupel::serve {

/// Returns at the end of the stream, or when the user asks to end (kCancelled is no error here).
/// A line that is too long is refused, and the next one read.
Status ServeMcp(McpServer& server, int in);

}  // namespace cupel::serve
