// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_message.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::serve {
namespace {

constexpr size_t kMostValues = 10'000;
constexpr size_t kMostInBatch = 64;
constexpr size_t kLongestId = 256;
constexpr size_t kLongestMethod = 256;

/// No message needs so many values. Finding a member of an object is a linear search, so a million
/// members would take hours.
bool HasTooManyValues(std::string_view text) {
  size_t commas = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == ',' && ++commas >= kMostValues) {
      return true;
    }
  }
  return false;
}

bool IsId(const Json& id) {
  return id.is_number_integer() ||
         (id.is_string() && id.get_ref<const std::string&>().size() <= kLongestId);
}

RpcRefusal Invalid(Json id, std::string message) {
  return {std::move(id), {RpcCode::kInvalidRequest, std::move(message), {}}};
}

/// Appends the message in `json`, or a refusal, to `items`.
void ReadOne(const Json& json, std::vector<RpcItem>& items) {
  if (!json.is_object()) {
    items.push_back(Invalid({}, "a message must be an object"));
    return;
  }
  const bool has_id = json.contains("id");
  RpcMessage message;
  if (has_id && IsId(json["id"])) message.id = json["id"];
  if (json.value("jsonrpc", Json()) != "2.0") {
    items.push_back(Invalid(message.id, "\"jsonrpc\" must be \"2.0\""));
    return;
  }
  const auto method = json.find("method");
  if (method == json.end()) {
    // This server sends no requests, so it ignores responses.
    const bool is_response = json.contains("result") || json.contains("error");
    if (!is_response) items.push_back(Invalid(message.id, "\"method\" is missing"));
    return;
  }
  if (has_id && message.id.is_null()) {
    items.push_back(Invalid({}, fmt::format("\"id\" must be an integer or a string of at most {} "
                                            "bytes",
                                            kLongestId)));
    return;
  }
  if (!method->is_string() || method->get_ref<const std::string&>().size() > kLongestMethod) {
    items.push_back(Invalid(message.id, "\"method\" must be a method name"));
    return;
  }
  message.method = method->get<std::string>();
  if (const auto params = json.find("params"); params != json.end()) {
    if (!params->is_object()) {
      // Notifications are not answered, even if they are invalid.
      if (!has_id) return;
      items.push_back(
          RpcRefusal{message.id, {RpcCode::kInvalidParams, "\"params\" must be an object", {}}});
      return;
    }
    message.params = *params;
  }
  items.push_back(std::move(message));
}

}  // namespace

RpcLine ReadRpc(std::string_view line) {
  RpcLine read;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return read;
  if (HasTooManyValues(line)) {
    read.items.push_back(
        Invalid({}, fmt::format("a message may have at most {} values", kMostValues)));
    return read;
  }
  const auto json = ParseJson(line, "message");
  if (!json) {
    read.items.push_back(RpcRefusal{{}, {RpcCode::kParseError, json.error().message, {}}});
    return read;
  }
  read.is_batch = json->is_array();
  if (!read.is_batch) {
    ReadOne(*json, read.items);
  } else if (json->empty() || json->size() > kMostInBatch) {
    read.is_batch = false;  // JSON-RPC requires one error as the whole answer
    read.items.push_back(
        Invalid({}, fmt::format("a batch must have 1 to {} messages", kMostInBatch)));
  } else {
    for (const Json& one : *json) ReadOne(one, read.items);
  }
  return read;
}

Json RpcResponse(const Json& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json RpcResponse(const Json& id, const RpcError& error) {
  Json json{{"code", static_cast<int>(error.code)}, {"message", error.message}};
  if (!error.data.is_null()) json["data"] = error.data;
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(json)}};
}

Json RpcNotification(std::string_view method, Json params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace cupel::serve
