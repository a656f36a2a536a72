// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_stream.h"

#include <string>

#include "os/fd.h"
#include "os/lines.h"

namespace cupel::serve {

Status ServeMcp(McpServer& server, int in, const std::stop_token& stop) {
  os::Lines lines(kLongestMcpLine);
  std::string buffer(1u << 16, '\0');
  for (;;) {
    const auto n = os::ReadSome(in, buffer, {}, stop);
    if (!n && n.error().code == ErrorCode::kCancelled) return {};
    if (!n) return tl::unexpected<Error>(n.error());
    if (*n == 0) return {};
    lines.Feed(std::string_view{buffer}.substr(0, *n));
    for (;;) {
      const auto line = lines.Next();
      if (!line) {
        server.Refuse({RpcCode::kInvalidRequest, line.error().message, {}});
        lines.Skip();
        continue;
      }
      if (!*line) break;
      server.Take(**line);
    }
  }
}

}  // namespace cupel::serve
