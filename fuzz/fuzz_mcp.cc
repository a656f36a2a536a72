// Lines of the Model Context Protocol. Each line gives messages or errors, each answer is one line,
// and a server answers every request once and stops.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/json.h"
#include "harness.h"
#include "os/lines.h"
#include "serve/mcp_server.h"

namespace cupel::fuzz {
namespace {

serve::McpOffer Offer() {
  serve::McpTool tool;
  tool.name = "t";
  tool.title = "T";
  tool.is_heavy = true;
  tool.input = {{"type", "object"},
                {"properties", {{"a", {{"type", "string"}, {"maxLength", 8}}}}},
                {"additionalProperties", false}};
  tool.run = [](const Json& arguments, serve::McpCall& call) {
    call.Show("half", 1, 2);
    return serve::McpAnswer{DumpJson(arguments), arguments, false};
  };
  serve::McpOffer offer;
  offer.tools = {tool};
  offer.list_resources = [] { return std::vector<serve::McpResource>(); };
  offer.read_resource = [](const std::string&) { return std::vector<serve::McpText>(); };
  return offer;
}

}  // namespace

void RunOne(std::string_view input) {
  serve::McpServer server(Offer(), [](const std::string& line) {
    CHECK(line.find('\n') == std::string::npos);
    const auto json = ParseJson(line, "answer");
    CHECK(json.has_value());
    CHECK(json->is_array() || (*json)["jsonrpc"] == "2.0");
  });
  os::Lines lines(1u << 12);
  // In two pieces, as a pipe may deliver them.
  for (const auto piece : {input.substr(0, input.size() / 2), input.substr(input.size() / 2)}) {
    lines.Feed(piece);
    for (;;) {
      const auto line = lines.Next();
      if (!line) {
        lines.Skip();
        continue;
      }
      if (!*line) break;
      size_t answered = 0;
      const serve::RpcLine read = serve::ReadRpc(**line);
      for (const serve::RpcItem& item : read.items) {
        const auto* message = std::get_if<serve::RpcMessage>(&item);
        answered += message == nullptr || !message->id.is_null() ? 1 : 0;
      }
      CHECK(read.is_batch || answered <= 1);
      server.Take(**line);
    }
  }
  server.Wait();
}

}  // namespace cupel::fuzz
