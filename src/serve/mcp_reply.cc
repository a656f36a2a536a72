// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_reply.h"

#include "base/version.h"

namespace cupel::serve {
namespace {

constexpr int kFreshMs = 60'000;  // not longer, since users edit the task files

}  // namespace

Json McpServerInfo() { return {{"name", "cupel"}, {"title", "cupel"}, {"version", kVersion}}; }

Json McpCapabilities() { return {{"tools", Json::object()}, {"resources", Json::object()}}; }

Json McpToolJson(const McpTool& tool) {
  Json json{{"name", tool.name},
            {"title", tool.title},
            {"description", tool.description},
            {"inputSchema", tool.input}};
  if (!tool.output.empty()) json["outputSchema"] = tool.output;
  // Kernels run in the sandbox or the emulator, so tools change none of the user's files.
  json["annotations"] = {{"title", tool.title},
                         {"readOnlyHint", true},
                         {"destructiveHint", false},
                         {"idempotentHint", true},
                         {"openWorldHint", tool.asks_others}};
  return json;
}

Json McpAnswerJson(const McpAnswer& answer) {
  Json content = Json::array();
  content.push_back({{"type", "text"}, {"text", answer.text}});
  Json json{{"content", std::move(content)}};
  if (!answer.structured.is_null()) json["structuredContent"] = answer.structured;
  json["isError"] = answer.is_error;
  return json;
}

Json McpResourcesJson(const std::vector<McpResource>& resources) {
  Json list = Json::array();
  for (const McpResource& one : resources) {
    list.push_back(
        {{"uri", one.uri}, {"name", one.name}, {"title", one.title}, {"mimeType", one.mime_type}});
  }
  return {{"resources", std::move(list)}};
}

Json McpTextsJson(const std::vector<McpText>& texts) {
  Json contents = Json::array();
  for (const McpText& one : texts) {
    contents.push_back({{"uri", one.uri}, {"mimeType", one.mime_type}, {"text", one.text}});
  }
  return {{"contents", std::move(contents)}};
}

void AddStatelessMembers(Json& result, bool is_cacheable) {
  result["resultType"] = "complete";
  result["_meta"]["io.modelcontextprotocol/serverInfo"] = McpServerInfo();
  if (!is_cacheable) return;
  result["ttlMs"] = kFreshMs;
  result["cacheScope"] = "private";
}

RpcError UnsupportedRevision(const Json& requested) {
  Json supported = Json::array({kMcpStatelessRevision});
  for (const char* revision : kMcpRevisions) supported.push_back(revision);
  return {RpcCode::kUnsupportedVersion,
          "Unsupported protocol version",
          {{"supported", std::move(supported)}, {"requested", requested}}};
}

RpcError InvalidParams(std::string message) {
  return {RpcCode::kInvalidParams, std::move(message), {}};
}

}  // namespace cupel::serve
