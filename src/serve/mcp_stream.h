// The stdio transport of MCP: passes lines from a descriptor to a server until the client closes
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "base/result.h"
#include "serve/mcp_server.h"

namespace cupel::serve {

/// Returns at the end of the stream, or after a stop request (then without an Error). Rejects a
/// line that is too long and continues with the next.
Status ServeMcp(McpServer& server, int in, const std::stop_token& stop = {});

}  // namespace cupel::serve
