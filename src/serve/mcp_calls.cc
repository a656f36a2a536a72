// Tool calls: each runs in its own thread. At most McpOffer::jobs heavy ones run at the same time.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "serve/mcp_reply.h"
#include "serve/mcp_schema.h"
#include "serve/mcp_server_impl.h"

namespace cupel::serve {
namespace {

constexpr size_t kMostCalls = 64;

}  // namespace

McpAnswer McpFailure(const Error& error) { return {error.ToString(), Json(), true}; }

McpServer::Call::Call(McpServer& its_server, Request its_request, const McpTool& its_tool,
                      Json its_arguments)
    : server(its_server),
      request(std::move(its_request)),
      tool(its_tool),
      arguments(std::move(its_arguments)) {
  const auto wanted = request.meta.find("progressToken");
  if (wanted == request.meta.end()) return;
  if (wanted->is_string() || wanted->is_number_integer()) token = *wanted;
}

void McpServer::Call::Show(std::string_view message, double done, std::optional<double> total) {
  if (token.is_null()) return;
  // Each progress value must be larger than the last, even if only the message is new.
  shown = std::max(done, shown + 0.001);
  Json params{{"progressToken", token}, {"progress", shown}};
  if (total) params["total"] = std::max(*total, shown);
  params["message"] = message;
  const std::lock_guard lock(server.mutex_);
  if (!is_stopped()) server.Send(RpcNotification("notifications/progress", std::move(params)));
}

void McpServer::CallTool(Request& request) {
  const auto name = request.params.find("name");
  if (name == request.params.end() || !name->is_string()) {
    return Reply(request, InvalidParams("\"name\" must be a tool name"));
  }
  const auto tool = std::find_if(offer_.tools.begin(), offer_.tools.end(),
                                 [&](const McpTool& one) { return *name == one.name; });
  if (tool == offer_.tools.end()) {
    return Reply(request,
                 InvalidParams("Unknown tool: " + name->get<std::string>().substr(0, 100)));
  }
  Json arguments = request.params.value("arguments", Json::object());
  if (!arguments.is_object()) {
    return Reply(request, InvalidParams("\"arguments\" must be an object"));
  }
  // Invalid arguments are reported in the result: a model cannot see protocol errors.
  if (const Status fits = CheckAgainst(tool->input, arguments, tool->name); !fits) {
    return Reply(request, McpAnswerJson(McpFailure(fits.error())));
  }
  if (const auto refused = Begin(request, *tool, std::move(arguments))) Reply(request, *refused);
}

std::optional<RpcError> McpServer::Begin(const Request& request, const McpTool& tool,
                                         Json arguments) {
  const std::string key = DumpJson(request.id);
  const std::lock_guard lock(mutex_);
  if (calls_.contains(key)) {
    return RpcError{RpcCode::kInvalidRequest, "a request with this id is still running", {}};
  }
  if (calls_.size() >= kMostCalls) {
    return RpcError{RpcCode::kInternalError,
                    fmt::format("{} calls are running: wait for one to end", kMostCalls),
                    {}};
  }
  auto call = std::make_unique<Call>(*this, request, tool, std::move(arguments));
  try {
    call->thread = std::thread([this, call = call.get()] { Run(*call); });
  } catch (const std::system_error& error) {
    return RpcError{RpcCode::kInternalError,
                    fmt::format("cannot start a thread: {}", error.code().message()),
                    {}};
  }
  calls_[key] = std::move(call);
  return {};
}

bool McpServer::AwaitTurn(Call& call) {
  const auto is_free = [this] { return heavy_ < offer_.jobs; };
  std::unique_lock lock(mutex_);
  if (!is_free()) {
    lock.unlock();
    call.Show("waiting for another call to end", 0, {});
    lock.lock();
  }
  changed_.wait(lock, [&] { return call.is_stopped() || is_free(); });
  if (call.is_stopped()) return false;
  ++heavy_;
  return true;
}

void McpServer::Run(Call& call) {
  const bool has_turn = !call.tool.is_heavy || AwaitTurn(call);
  Json result;
  if (has_turn) {
    result = McpAnswerJson(call.tool.run(call.arguments, call));
    if (call.request.is_stateless) AddStatelessMembers(result, false);
  }
  {
    const std::lock_guard lock(mutex_);
    if (call.tool.is_heavy && has_turn) --heavy_;
    Deliver(call.is_stopped() ? Json() : RpcResponse(call.request.id, std::move(result)),
            call.request.batch);
    call.is_done = true;
  }
  changed_.notify_all();
}

void McpServer::Cancel(const Json& params) {
  const auto id = params.find("requestId");
  if (id == params.end()) return;
  {
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(DumpJson(*id));
    if (call == calls_.end()) return;  // already answered, or unknown
    call->second->stop_source.request_stop();
  }
  changed_.notify_all();
}

void McpServer::Wait() {
  for (const auto& [id, call] : calls_) call->thread.join();
  calls_.clear();
}

void McpServer::Reap() {
  const std::lock_guard lock(mutex_);
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (!it->second->is_done) {
      ++it;
      continue;
    }
    it->second->thread.join();
    it = calls_.erase(it);
  }
}

}  // namespace cupel::serve
