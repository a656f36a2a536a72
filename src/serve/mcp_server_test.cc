// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "os/fd.h"
#include "serve/mcp_stream.h"

namespace cupel::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Tools that end when the test says so.
struct Gate {
  std::atomic<bool> is_open = false;
  std::atomic<int> inside = 0, most_inside = 0;

  McpAnswer Pass(McpCall& call) {
    call.Show("half way", 1, 2);
    call.Show("still half way", 1, 2);
    most_inside = std::max(most_inside.load(), ++inside);
    while (!is_open && !call.stop().stop_requested()) std::this_thread::yield();
    --inside;
    return {"passed", Json{{"n", 1}}, false};
  }
  void Await(int count) const {
    while (inside != count) std::this_thread::yield();
  }
};

class McpServerTest : public ::testing::Test {
 protected:
  McpServerTest() {
    McpOffer offer;
    offer.instructions = "read me";
    McpTool echo;
    echo.name = "echo";
    echo.title = "Echo";
    echo.description = "Says it again";
    echo.input = {{"type", "object"},
                  {"properties", {{"text", {{"type", "string"}}}}},
                  {"required", {"text"}}};
    echo.output = {{"type", "object"}};
    echo.run = [](const Json& arguments, McpCall&) {
      return McpAnswer{arguments["text"].get<std::string>(), arguments, false};
    };
    McpTool gate;
    gate.name = "gate";
    gate.title = "Gate";
    gate.description = "Waits";
    gate.input = {{"type", "object"}};
    gate.is_heavy = true;
    gate.run = [this](const Json&, McpCall& call) { return gate_.Pass(call); };
    offer.tools = {echo, gate};
    offer.list_resources = [] {
      return std::vector<McpResource>{{"cupel://guide", "guide", "Guide", "text/plain"}};
    };
    offer.read_resource = [](const std::string& uri) {
      std::vector<McpText> texts;
      if (uri == "cupel://guide") texts.push_back({uri, "text/plain", "hello"});
      return texts;
    };
    offer.jobs = 1;
    server_ = std::make_unique<McpServer>(std::move(offer), [this](const std::string& line) {
      EXPECT_THAT(line, ::testing::Not(HasSubstr("\n")));
      const std::lock_guard lock(mutex_);
      said_.push_back(ParseJson(line, "answer").value());
    });
  }
  ~McpServerTest() override { gate_.is_open = true; }

  std::vector<Json> Said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    said_.clear();
  }
  /// Sends `lines` and waits for all their answers.
  std::vector<Json> Ask(std::initializer_list<const char*> lines) {
    Forget();
    for (const char* line : lines) server_->Take(line);
    server_->Wait();
    return Said();
  }
  Json AskOne(const char* line) {
    const auto said = Ask({line});
    EXPECT_THAT(said, SizeIs(1)) << line;
    return said.empty() ? Json() : said[0];
  }
  void Begin(const std::string& revision) {
    const Json answer =
        AskOne((R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
                revision + R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})")
                   .c_str());
    EXPECT_EQ(answer["result"]["protocolVersion"], revision);
    server_->Take(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  }
  static int CodeOf(const Json& answer) { return answer["error"].value("code", 0); }

  Gate gate_;
  std::mutex mutex_;
  std::vector<Json> said_;
  std::unique_ptr<McpServer> server_;
};

constexpr const char* kEcho =
    R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}})";
constexpr const char* kGate =
    R"({"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"gate","_meta":{"progressToken":"p"}}})";

TEST_F(McpServerTest, InitializeSetsTheRevision) {
  EXPECT_EQ(CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})")), -32600);
  EXPECT_EQ(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"ping"})")["result"], Json::object());
  EXPECT_EQ(CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"initialize"})")), -32602);
  const Json answer = AskOne(
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01"}})");
  EXPECT_EQ(answer["result"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(answer["result"]["serverInfo"]["name"], "cupel");
  EXPECT_EQ(answer["result"]["instructions"], "read me");
  EXPECT_EQ(
      CodeOf(AskOne(
          R"({"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2024-11-05"}})")),
      -32600);
}

TEST_F(McpServerTest, ListsAndCallsTools) {
  Begin("2025-06-18");
  const Json list = AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_THAT(list["result"]["tools"], SizeIs(2));
  EXPECT_EQ(list["result"]["tools"][0]["annotations"]["readOnlyHint"], true);
  EXPECT_FALSE(list["result"].contains("resultType"));
  const Json answer = AskOne(kEcho);
  EXPECT_EQ(answer["id"], 5);
  EXPECT_EQ(answer["result"]["content"][0]["text"], "hi");
  EXPECT_EQ(answer["result"]["structuredContent"]["text"], "hi");
  EXPECT_EQ(answer["result"]["isError"], false);
}

TEST_F(McpServerTest, AnswersInvalidRequests) {
  Begin("2025-06-18");
  EXPECT_EQ(CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/none"})")), -32601);
  EXPECT_EQ(CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})")), -32601);
  EXPECT_EQ(CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}})")),
            -32602);
  EXPECT_EQ(
      CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}})")),
      -32602);
  EXPECT_EQ(
      CodeOf(AskOne(
          R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":7}})")),
      -32602);
  EXPECT_EQ(
      CodeOf(AskOne(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c"}})")),
      -32602);
  // Invalid arguments are reported in the result, where the model sees them.
  const Json answer = AskOne(
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}})");
  EXPECT_EQ(answer["result"]["isError"], true);
  EXPECT_THAT(answer["result"]["content"][0]["text"].get<std::string>(),
              HasSubstr("needs \"text\""));
  // Notifications are never answered.
  EXPECT_THAT(
      Ask({R"({"jsonrpc":"2.0","method":"tools/none"})",
           R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}})"}),
      SizeIs(0));
}

TEST_F(McpServerTest, ReadsResources) {
  Begin("2025-06-18");
  EXPECT_EQ(
      AskOne(
          R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})")["result"]["resources"][0]["uri"],
      "cupel://guide");
  EXPECT_EQ(
      AskOne(
          R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"cupel://guide"}})")
          ["result"]["contents"][0]["text"],
      "hello");
  EXPECT_EQ(
      CodeOf(AskOne(
          R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}})")),
      -32002);
}

TEST_F(McpServerTest, SendsIncreasingProgressBeforeTheAnswer) {
  Begin("2025-06-18");
  gate_.is_open = true;
  const auto said = Ask({kGate});
  ASSERT_THAT(said, SizeIs(3));
  EXPECT_EQ(said[0]["method"], "notifications/progress");
  EXPECT_EQ(said[0]["params"]["progressToken"], "p");
  EXPECT_EQ(said[0]["params"]["total"], 2);
  EXPECT_EQ(said[1]["params"]["message"], "still half way");
  EXPECT_GT(said[1]["params"]["progress"], said[0]["params"]["progress"]);
  EXPECT_EQ(said[2]["id"], "g");
}

TEST_F(McpServerTest, CancelledCallEndsWithoutAnswer) {
  Begin("2025-06-18");
  server_->Take(kGate);
  gate_.Await(1);
  Forget();
  server_->Take(
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"g"}})");
  server_->Wait();
  EXPECT_THAT(Said(), SizeIs(0));
  EXPECT_EQ(gate_.inside, 0);
}

TEST_F(McpServerTest, OnlyHeavyCallsWaitForTheirTurn) {
  Begin("2025-06-18");
  server_->Take(kGate);
  gate_.Await(1);  // before sending the others, since calls run in their own threads
  server_->Take(R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"gate"}})");
  server_->Take(R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"gate"}})");
  Forget();
  server_->Take(kEcho);
  while (Said().empty()) std::this_thread::yield();
  EXPECT_EQ(Said()[0]["id"], 5);
  // Cancel one of the waiting calls: it never runs.
  server_->Take(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}})");
  EXPECT_EQ(gate_.inside, 1);
  Forget();
  gate_.is_open = true;
  server_->Wait();
  EXPECT_EQ(gate_.most_inside, 1);
  EXPECT_THAT(Said(), SizeIs(2));
}

TEST_F(McpServerTest, RejectsIdThatIsInUse) {
  Begin("2025-06-18");
  server_->Take(kGate);
  gate_.Await(1);
  Forget();
  server_->Take(kGate);
  ASSERT_THAT(Said(), SizeIs(1));
  EXPECT_EQ(CodeOf(Said()[0]), -32600);
}

TEST_F(McpServerTest, RejectsTooManyCalls) {
  Begin("2025-06-18");
  for (int i = 0; i < 64; ++i) {
    server_->Take(R"({"jsonrpc":"2.0","id":)" + std::to_string(100 + i) +
                  R"(,"method":"tools/call","params":{"name":"gate"}})");
  }
  Forget();
  server_->Take(kEcho);
  ASSERT_THAT(Said(), SizeIs(1));
  EXPECT_EQ(CodeOf(Said()[0]), -32603);
}

TEST_F(McpServerTest, DestructorStopsAllCalls) {
  Begin("2025-06-18");
  server_->Take(kGate);
  gate_.Await(1);
  Forget();
  server_.reset();
  EXPECT_THAT(Said(), SizeIs(0));
  EXPECT_EQ(gate_.inside, 0);
}

TEST_F(McpServerTest, AcceptsBatchesInOneRevision) {
  Begin("2025-03-26");
  const auto said = Ask({R"([{"jsonrpc":"2.0","id":1,"method":"ping"},)"
                         R"({"jsonrpc":"2.0","method":"notifications/initialized"},7,)"
                         R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo",)"
                         R"("arguments":{"text":"hi"}}}])"});
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_THAT(said[0], SizeIs(3));
  EXPECT_EQ(said[0][0]["id"], 1);
  EXPECT_EQ(CodeOf(said[0][1]), -32600);
  EXPECT_EQ(said[0][2]["result"]["content"][0]["text"], "hi");
  EXPECT_THAT(Ask({R"([{"jsonrpc":"2.0","method":"notifications/initialized"}])"}), SizeIs(0));
}

TEST_F(McpServerTest, RejectsBatchesInOtherRevisions) {
  Begin("2025-06-18");
  const Json answer = AskOne(R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])");
  EXPECT_EQ(CodeOf(answer), -32600);
  EXPECT_TRUE(answer["id"].is_null());
}

constexpr const char* kMeta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}})";

TEST_F(McpServerTest, StatelessRevisionNeedsNoInitialize) {
  const std::string head = R"({"jsonrpc":"2.0","id":1,"method":")";
  const Json found = AskOne((head + "server/discover\",\"params\":{" + kMeta + "}}").c_str());
  EXPECT_EQ(found["result"]["supportedVersions"], Json::array({"2026-07-28"}));
  EXPECT_EQ(found["result"]["resultType"], "complete");
  EXPECT_GE(found["result"]["ttlMs"], 0);
  const Json called = AskOne(
      (head + R"(tools/call","params":{"name":"echo","arguments":{"text":"hi"},)" + kMeta + "}}")
          .c_str());
  EXPECT_EQ(called["result"]["content"][0]["text"], "hi");
  EXPECT_EQ(called["result"]["resultType"], "complete");
  EXPECT_EQ(called["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "cupel");
  EXPECT_FALSE(called["result"].contains("ttlMs"));
  // That revision has no ping, and a different code for unknown resources.
  EXPECT_EQ(CodeOf(AskOne((head + "ping\",\"params\":{" + kMeta + "}}").c_str())), -32601);
  EXPECT_EQ(
      CodeOf(AskOne((head + R"(resources/read","params":{"uri":"x",)" + kMeta + "}}").c_str())),
      -32602);
}

TEST_F(McpServerTest, AnswersUnknownRevisionWithTheSupportedOnes) {
  const Json answer = AskOne(
      R"({"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}})");
  EXPECT_EQ(CodeOf(answer), -32022);
  EXPECT_EQ(answer["error"]["data"]["supported"][0], "2026-07-28");
  const Json bare = AskOne(
      R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}})");
  EXPECT_EQ(CodeOf(bare), -32602);
}

TEST_F(McpServerTest, ServesAStreamToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  os::Fd in(ends[0]), out(ends[1]);
  std::thread client([&out] {
    const std::string huge(kLongestMcpLine + 1, 'x');
    EXPECT_TRUE(os::WriteAll(out.get(), huge + "\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":"
                                               "\"ping\"}\n{\"torn"));
    out.Close();
  });
  EXPECT_TRUE(ServeMcp(*server_, in.get()));
  client.join();
  const auto said = Said();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_EQ(CodeOf(said[0]), -32600);
  EXPECT_EQ(said[1]["id"], 1);
}

}  // namespace
}  // namespace cupel::serve
