// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/mcp_schema.h"

namespace cupel::serve {
namespace {

using ::testing::HasSubstr;

RpcMessage MessageIn(std::string_view line) {
  const RpcLine read = ReadRpc(line);
  EXPECT_EQ(read.items.size(), 1u) << line;
  const auto* message = read.items.empty() ? nullptr : std::get_if<RpcMessage>(&read.items[0]);
  EXPECT_NE(message, nullptr) << line;
  return message != nullptr ? *message : RpcMessage{};
}

RpcRefusal RefusalOf(std::string_view line) {
  const RpcLine read = ReadRpc(line);
  EXPECT_EQ(read.items.size(), 1u) << line;
  const auto* refusal = read.items.empty() ? nullptr : std::get_if<RpcRefusal>(&read.items[0]);
  EXPECT_NE(refusal, nullptr) << line;
  return refusal != nullptr ? *refusal : RpcRefusal{};
}

TEST(McpMessage, ReadsRequestsAndNotifications) {
  const RpcMessage request =
      MessageIn(R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}})");
  EXPECT_EQ(request.id, 7);
  EXPECT_EQ(request.method, "tools/call");
  EXPECT_EQ(request.params["name"], "x");
  EXPECT_EQ(MessageIn(R"({"jsonrpc":"2.0","id":"a","method":"ping"})").id, "a");
  EXPECT_TRUE(MessageIn(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").id.is_null());
}

TEST(McpMessage, AnswersInvalidMessagesWithTheCorrectCode) {
  EXPECT_EQ(RefusalOf("{\"jsonrpc\":").error.code, RpcCode::kParseError);
  EXPECT_EQ(RefusalOf("\xff\xfe").error.code, RpcCode::kParseError);
  EXPECT_EQ(RefusalOf(std::string(1000, '[')).error.code, RpcCode::kParseError);
  for (const char* line :
       {"7", "\"text\"", "null", "{}", R"({"id":1,"method":"ping"})",
        R"({"jsonrpc":"1.0","id":1,"method":"ping"})", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","id":null,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":{},"method":"ping"})", R"({"jsonrpc":"2.0","id":1,"method":2})",
        "[]"}) {
    EXPECT_EQ(RefusalOf(line).error.code, RpcCode::kInvalidRequest) << line;
  }
  const RpcRefusal params = RefusalOf(R"({"jsonrpc":"2.0","id":3,"method":"ping","params":[1]})");
  EXPECT_EQ(params.error.code, RpcCode::kInvalidParams);
  EXPECT_EQ(params.id, 3);
}

TEST(McpMessage, IgnoresResponsesAndEmptyLines) {
  EXPECT_TRUE(ReadRpc(R"({"jsonrpc":"2.0","id":1,"result":{}})").items.empty());
  EXPECT_TRUE(ReadRpc(R"({"jsonrpc":"2.0","id":1,"error":{"code":1}})").items.empty());
  EXPECT_TRUE(ReadRpc(" \r").items.empty());
}

TEST(McpMessage, RejectsHugeMessagesQuickly) {
  std::string wide = "{";  // a linear search for each name would take hours
  for (int i = 0; i < 1'000'000; ++i) wide += "\"" + std::to_string(i) + "\":0,";
  wide += "\"jsonrpc\":\"2.0\"}";
  EXPECT_THAT(RefusalOf(wide).error.message, HasSubstr("at most 10000 values"));
  std::string batch = "[0";
  for (int i = 0; i < 64; ++i) batch += ",0";
  EXPECT_THAT(RefusalOf(batch + "]").error.message, HasSubstr("1 to 64"));
  // Commas in strings do not count as values.
  const std::string source(50'000, ',');
  const std::string line =
      R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\",)" + source + "\"}}";
  EXPECT_EQ(MessageIn(line).params["a"].get<std::string>().size(), source.size() + 2);
}

std::string MismatchOf(const Json& schema, const char* value) {
  const Status fits = CheckAgainst(schema, ParseJson(value, "test").value(), "x");
  return fits ? "" : fits.error().ToString();
}

TEST(McpSchema, ChecksArguments) {
  const Json schema =
      ParseJson(R"({"type":"object","required":["task"],"additionalProperties":false,"properties":{
        "task":{"type":"string","maxLength":3},"kind":{"type":"string","enum":["a","b"]},
        "n":{"type":"integer","minimum":1,"maximum":5},
        "list":{"type":"array","maxItems":2,"items":{"type":"string"}}}})",
                "test")
          .value();
  EXPECT_EQ(MismatchOf(schema, R"({"task":"äöü","kind":"b","n":5,"list":["p","q"]})"), "");
  EXPECT_EQ(MismatchOf(schema, "{}"), "x needs \"task\"");
  EXPECT_EQ(MismatchOf(schema, "[]"), "x must be an object");
  EXPECT_EQ(MismatchOf(schema, R"({"task":1})"), "\"task\" must be a string");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"four"})"), "the length of \"task\" must be at most 3");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","kind":"c"})"), R"("kind" must be one of ["a","b"])");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","n":6})"), "\"n\" must be at most 5");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","n":0})"), "\"n\" must be at least 1");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","n":1.5})"), "\"n\" must be an integer");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","list":["p",2]})"), "\"list\"[1] must be a string");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","list":["p","q","r"]})"),
            "the length of \"list\" must be at most 2");
  EXPECT_EQ(MismatchOf(schema, R"({"task":"t","taks":1})"),
            "x has no \"taks\"; it may have task, kind, n, list");
}

}  // namespace
}  // namespace cupel::serve
