// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/mcp_reply.h"
#include "serve/mcp_server_impl.h"

namespace cupel::serve {

McpServer::McpServer(McpOffer offer, std::function<void(const std::string& line)> send)
    : offer_(std::move(offer)), send_(std::move(send)) {}

McpServer::~McpServer() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, call] : calls_) call->stop_source.request_stop();
  }
  changed_.notify_all();
  Wait();
}

void McpServer::Send(const Json& message) { send_(DumpJson(message)); }

void McpServer::Refuse(const RpcError& error) {
  const std::lock_guard lock(mutex_);
  Send(RpcResponse(Json(), error));
}

void McpServer::Deliver(Json response, const std::shared_ptr<Batch>& batch) {
  if (!batch) {
    if (!response.is_null()) Send(response);
    return;
  }
  if (!response.is_null()) batch->responses.push_back(std::move(response));
  if (--batch->missing == 0 && !batch->responses.empty()) Send(batch->responses);
}

void McpServer::Reply(const Request& request, Json result, bool is_cacheable) {
  if (request.is_stateless) AddStatelessMembers(result, is_cacheable);
  const std::lock_guard lock(mutex_);
  Deliver(RpcResponse(request.id, std::move(result)), request.batch);
}

void McpServer::Reply(const Request& request, const RpcError& error) {
  const std::lock_guard lock(mutex_);
  Deliver(RpcResponse(request.id, error), request.batch);
}

void McpServer::Take(std::string_view line) {
  Reap();
  RpcLine read = ReadRpc(line);
  std::shared_ptr<Batch> batch;
  if (read.is_batch) {
    if (revision_ != kMcpBatchRevision) {
      return Refuse({RpcCode::kInvalidRequest,
                     fmt::format("only revision {} has batches: send one message per line",
                                 kMcpBatchRevision),
                     {}});
    }
    const auto is_answered = [](const RpcItem& item) {
      const auto* message = std::get_if<RpcMessage>(&item);
      return message == nullptr || !message->id.is_null();
    };
    batch = std::make_shared<Batch>();
    batch->missing =
        static_cast<size_t>(std::count_if(read.items.begin(), read.items.end(), is_answered));
  }
  for (RpcItem& item : read.items) {
    if (auto* refusal = std::get_if<RpcRefusal>(&item)) {
      const std::lock_guard lock(mutex_);
      Deliver(RpcResponse(refusal->id, refusal->error), batch);
    } else {
      TakeMessage(std::get<RpcMessage>(std::move(item)), batch);
    }
  }
}

void McpServer::TakeMessage(RpcMessage message, const std::shared_ptr<Batch>& batch) {
  if (message.id.is_null()) {
    // Other notifications, such as `notifications/initialized`, need no action.
    if (message.method == "notifications/cancelled") Cancel(message.params);
    return;
  }
  Request request;
  request.id = std::move(message.id);
  request.method = std::move(message.method);
  request.params = std::move(message.params);
  request.batch = batch;
  request.meta = request.params.value("_meta", Json::object());
  if (!request.meta.is_object()) {
    return Reply(request, InvalidParams("\"_meta\" must be an object"));
  }
  if (const auto revision = request.meta.find(kMcpMetaRevision); revision != request.meta.end()) {
    if (*revision != kMcpStatelessRevision) return Reply(request, UnsupportedRevision(*revision));
    if (!request.meta.value(kMcpMetaCapabilities, Json()).is_object()) {
      return Reply(request, InvalidParams(fmt::format("\"_meta\" needs \"{}\", an object",
                                                      kMcpMetaCapabilities)));
    }
    request.is_stateless = true;
  } else if (revision_.empty() && request.method != "initialize" && request.method != "ping") {
    return Reply(request, RpcError{RpcCode::kInvalidRequest, "begin with \"initialize\"", {}});
  }
  Dispatch(request);
}

void McpServer::Dispatch(Request& request) {
  const std::string& method = request.method;
  if (method.ends_with("/list") && request.params.contains("cursor")) {
    return Reply(request, InvalidParams("unknown \"cursor\": every list has only one page"));
  }
  if (method == "initialize" && !request.is_stateless) return Initialize(request);
  if (method == "ping" && !request.is_stateless) return Reply(request, Json::object());
  if (method == "server/discover" && request.is_stateless) {
    return Reply(request,
                 Json{{"supportedVersions", Json::array({kMcpStatelessRevision})},
                      {"capabilities", McpCapabilities()},
                      {"instructions", offer_.instructions}},
                 true);
  }
  if (method == "tools/list") {
    Json tools = Json::array();
    for (const McpTool& tool : offer_.tools) tools.push_back(McpToolJson(tool));
    return Reply(request, Json{{"tools", std::move(tools)}}, true);
  }
  if (method == "tools/call") return CallTool(request);
  if (method == "resources/list") {
    const auto all = offer_.list_resources();
    if (all) return Reply(request, McpResourcesJson(*all), true);
    return Reply(request, RpcError{RpcCode::kInternalError, all.error().ToString(), {}});
  }
  if (method == "resources/templates/list") {
    return Reply(request, Json{{"resourceTemplates", Json::array()}}, true);
  }
  if (method == "resources/read") return ReadResource(request);
  Reply(request, RpcError{RpcCode::kMethodNotFound, fmt::format("unknown method {}", method), {}});
}

void McpServer::Initialize(Request& request) {
  const auto wanted = request.params.find("protocolVersion");
  if (wanted == request.params.end() || !wanted->is_string()) {
    return Reply(request, InvalidParams("\"protocolVersion\" must be a string"));
  }
  if (!revision_.empty() || request.batch) {
    return Reply(request, RpcError{RpcCode::kInvalidRequest,
                                   "send \"initialize\" only once, and not in a batch",
                                   {}});
  }
  const auto known = std::find_if(kMcpRevisions.begin(), kMcpRevisions.end(),
                                  [&](const char* revision) { return *wanted == revision; });
  revision_ = known != kMcpRevisions.end() ? *known : kMcpRevisions.front();
  Reply(request, Json{{"protocolVersion", revision_},
                      {"capabilities", McpCapabilities()},
                      {"serverInfo", McpServerInfo()},
                      {"instructions", offer_.instructions}});
}

void McpServer::ReadResource(Request& request) {
  const auto uri = request.params.find("uri");
  if (uri == request.params.end() || !uri->is_string()) {
    return Reply(request, InvalidParams("\"uri\" must be a string"));
  }
  const auto texts = offer_.read_resource(uri->get<std::string>());
  if (!texts) {
    return Reply(request, RpcError{RpcCode::kInternalError, texts.error().ToString(), {}});
  }
  if (texts->empty()) {
    const auto code = request.is_stateless ? RpcCode::kInvalidParams : RpcCode::kResourceNotFound;
    return Reply(request, RpcError{code, "Resource not found", {{"uri", *uri}}});
  }
  Reply(request, McpTextsJson(*texts), true);
}

}  // namespace cupel::serve
