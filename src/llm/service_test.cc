// Tests clients with local servers that use each wire format and misbehave: no answer is lost, all
// costs are counted, and no key is printed.
// SPDX-License-Identifier: Apache-2.0
#include "llm/service.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stop_token>

#include "llm/open.h"
#include "llm/test_server.h"

namespace cupel::llm {
namespace {

using std::chrono::milliseconds;

constexpr const char* kKey = "sk-very-secret/12345";

std::string Data(const std::string& json) { return "data: " + json + "\n\n"; }

std::string Chat(const std::string& text, bool usage = true) {
  return ": keep-alive\n\n" +
         Data(R"({"model":"m1-real","choices":[{"delta":{"role":"assistant","content":""}}]})") +
         Data(R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})") +
         Data(R"({"choices":[{"delta":{"content":)" + DumpJson(Json(text)) + "}}]}") +
         Data(R"({"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null})") +
         (usage ? Data(R"({"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":50,)"
                       R"("prompt_tokens_details":{"cached_tokens":400}}})")
                : "") +
         "data: [DONE]\n\n";
}

/// Records all exchanges, like an archive.
class Kept : public Sink {
 public:
  Status Began(const Exchange& exchange) override {
    if (refuse_to_begin) return Fail(ErrorCode::kIo, "the disk is full", "free space");
    began.push_back(exchange);
    return {};
  }
  Status Ended(const Exchange& exchange) override {
    if (refuse) return Fail(ErrorCode::kIo, "the disk is full", "free space");
    ended.push_back(exchange);
    return {};
  }
  std::vector<Exchange> began, ended;
  bool refuse = false, refuse_to_begin = false;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { setenv("CUPEL_TEST_KEY", kKey, 1); }
  ~ServiceTest() override { unsetenv("CUPEL_TEST_KEY"); }

  Result<Answer> Ask(TestServer& server, const std::string& provider,
                     const std::string& options = "", Call call = {}) {
    Prices prices =
        Prices::Parse(
            ParseJson(R"({"models":{"*":{"input":1,"cached":0.1,"output":10}}})", "p").value(), "p")
            .value();
    OpenOptions open_options;
    open_options.prices = &prices;
    open_options.budget = &budget_;
    open_options.sink = &kept_;
    open_options.retry.attempts = 3;
    open_options.retry.first = milliseconds(1);
    Models models =
        OpenModels({server.Spec(provider, "@key=CUPEL_TEST_KEY,max_tokens=100" + options)},
                   open_options)
            .value();
    Request request;
    request.system = "be brief";
    request.messages = {{Role::kUser, "why?"}, {Role::kAssistant, "so"}, {Role::kUser, "really?"}};
    if (!call.on_text) call.on_text = [this](std::string_view piece) { received_ += piece; };
    if (!call.on_restart) call.on_restart = [this] { received_.clear(); };
    return models.clients[0]->Ask(request, call);
  }

  /// The body of the server's n-th request.
  static Json Body(const TestServer& server, size_t n = 0) {
    const std::string text = server.requests().at(n);
    return ParseJson(text.substr(text.find("\r\n\r\n") + 4), "body").value();
  }

  Budget budget_{{NanoUsd{1'000'000'000}, std::nullopt}};
  Kept kept_;
  std::string received_;
};

TEST_F(ServiceTest, SupportsChatCompletions) {
  TestServer server({Stream(Chat("one\ntwo \u00e9"))});
  const auto answer = Ask(server, "openai-chat", ",temperature=0.5,effort=low,seed=3");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "one\ntwo \u00e9");
  EXPECT_EQ(received_, answer->text);
  EXPECT_EQ(answer->reasoning, "hm");
  EXPECT_EQ(answer->stop, Stop::kEnd);
  EXPECT_EQ(answer->model, "m1-real");
  EXPECT_EQ(answer->usage.cached_tokens, 400);
  EXPECT_FALSE(answer->usage_bound);
  EXPECT_EQ(budget_.Spent().money, 600000 + 40000 + 500000);
  EXPECT_EQ(budget_.Spent().tokens, 1050);
  const Json body = Body(server);
  EXPECT_EQ(body["model"], "m1");
  EXPECT_EQ(body["messages"][0]["role"], "system");
  EXPECT_EQ(body["messages"][3]["content"], "really?");
  EXPECT_EQ(body["max_tokens"], 100);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["reasoning_effort"], "low");
  EXPECT_EQ(body["seed"], 3);
  const std::string head = server.requests()[0];
  EXPECT_EQ(head.find("POST /v1/chat/completions HTTP/1.1\r\n"), 0u);
  EXPECT_NE(head.find(std::string("Authorization: Bearer ") + kKey), std::string::npos);
}

TEST_F(ServiceTest, SupportsAnthropicMessages) {
  TestServer server({Stream(
      "event: message_start\n" +
      Data(R"({"type":"message_start","message":{"model":"real","usage":{"input_tokens":600,)"
           R"("cache_read_input_tokens":400,"output_tokens":1}}})") +
      "event: ping\n" + Data(R"({"type":"ping"})") +
      Data(R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}})") +
      Data(R"({"type":"content_block_delta","delta":{"type":"signature_delta","signature":"x"}})") +
      Data(R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"yes"}})") +
      Data(R"({"type":"something_new","x":[1]})") +
      Data(R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},)"
           R"("usage":{"output_tokens":50}})") +
      Data(R"({"type":"message_stop"})"))});
  const auto answer = Ask(server, "anthropic", ",thinking=50,effort=high");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "yes");
  EXPECT_EQ(answer->reasoning, "hm");
  EXPECT_EQ(answer->usage.input_tokens, 1000);
  EXPECT_EQ(budget_.Spent().money, 600000 + 40000 + 500000);
  const Json body = Body(server);
  EXPECT_EQ(body["system"], "be brief");
  EXPECT_EQ(body["thinking"]["budget_tokens"], 50);
  EXPECT_EQ(body["output_config"]["effort"], "high");
  const std::string head = server.requests()[0];
  EXPECT_EQ(head.find("POST /v1/messages "), 0u);
  EXPECT_NE(head.find(std::string("x-api-key: ") + kKey), std::string::npos);
  EXPECT_NE(head.find("anthropic-version: "), std::string::npos);
}

TEST_F(ServiceTest, SupportsResponses) {
  TestServer server({Stream(
      Data(R"({"type":"response.created","response":{}})") +
      Data(R"({"type":"response.reasoning_summary_text.delta","delta":"hm"})") +
      Data(R"({"type":"response.output_text.delta","delta":"ye"})") +
      Data(R"({"type":"response.output_text.delta","delta":"s"})") +
      Data(R"({"type":"response.incomplete","response":{"model":"real",)"
           R"("incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1000,)"
           R"("input_tokens_details":{"cached_tokens":400},"output_tokens":50}}})"))});
  const auto answer = Ask(server, "openai", ",effort=high");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "yes");
  EXPECT_EQ(answer->stop, Stop::kLength);
  EXPECT_EQ(budget_.Spent().money, 600000 + 40000 + 500000);
  const Json body = Body(server);
  EXPECT_EQ(body["instructions"], "be brief");
  EXPECT_EQ(body["max_output_tokens"], 100);
  EXPECT_EQ(body["reasoning"]["effort"], "high");
  EXPECT_EQ(body["store"], false);
}

TEST_F(ServiceTest, SupportsGemini) {
  TestServer server({Stream(
      Data(R"({"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],)"
           R"("usageMetadata":{"promptTokenCount":1000},"modelVersion":"real"})") +
      Data(
          R"({"candidates":[{"content":{"parts":[{"text":"yes"},{"thoughtSignature":"x"}]},)"
          R"("finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,)"
          R"("cachedContentTokenCount":400,"candidatesTokenCount":20,"thoughtsTokenCount":30}})"))});
  const auto answer = Ask(server, "gemini", ",thinking=7");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "yes");
  EXPECT_EQ(answer->reasoning, "hm");
  EXPECT_EQ(budget_.Spent().money, 600000 + 40000 + 500000);
  const Json body = Body(server);
  EXPECT_EQ(body["systemInstruction"]["parts"][0]["text"], "be brief");
  EXPECT_EQ(body["contents"][1]["role"], "model");
  EXPECT_EQ(body["contents"][2]["parts"][0]["text"], "really?");
  EXPECT_EQ(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 7);
  EXPECT_EQ(server.requests()[0].find("POST /v1/models/m1:streamGenerateContent?alt=sse "), 0u);
}

TEST_F(ServiceTest, AcceptsAnAnswerWithoutStreaming) {
  TestServer server({Whole(200, "application/json",
                           R"({"model":"m","choices":[{"message":{"content":"whole"},)"
                           R"("finish_reason":"stop"}],"usage":{"prompt_tokens":5,)"
                           R"("completion_tokens":2}})")});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "whole");
  EXPECT_EQ(budget_.Spent().tokens, 7);
}

TEST_F(ServiceTest, ReturnsRefusalsAsAnswers) {
  TestServer server(
      {Stream(Data(R"({"choices":[{"delta":{"refusal":"I will not"}}]})") +
              Data(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})") + "data: [DONE]\n\n"),
       Stream(Data(R"({"promptFeedback":{"blockReason":"SAFETY"},)"
                   R"("usageMetadata":{"promptTokenCount":9}})"))});
  const auto chat = Ask(server, "openai-chat");
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(chat->stop, Stop::kRefusal);
  EXPECT_EQ(chat->text, "I will not");
  const auto gemini = Ask(server, "gemini");
  ASSERT_TRUE(gemini) << gemini.error().message;
  EXPECT_EQ(gemini->stop, Stop::kRefusal);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(ServiceTest, RetriesTransientErrorsAndChargesOnce) {
  TestServer server({Whole(429, "application/json", R"({"error":{"message":"slow down"}})",
                           "Retry-After: 0.05\r\n"),
                     Whole(503, "text/html", "<html>busy</html>"), Stream(Chat("ok"))});
  const auto start = std::chrono::steady_clock::now();
  const auto answer = Ask(server, "openai-chat");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "ok");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50));
  EXPECT_EQ(budget_.Spent().tokens, 1050);  // rejected requests cost nothing
  ASSERT_EQ(kept_.ended.size(), 3u);
  EXPECT_EQ(kept_.ended[0].spent.money, 0);
  EXPECT_EQ(kept_.ended[2].attempt, 3);
}

TEST_F(ServiceTest, FailsAfterTheLastAttempt) {
  TestServer server({Whole(500, "text/plain", "a"), Whole(500, "text/plain", "b"),
                     Whole(500, "text/plain", "c"), Stream(Chat("too late"))});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("3 attempts"), std::string::npos) << answer.error().message;
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(ServiceTest, DoesNotWaitLongerThanTheLimit) {
  TestServer server({Whole(429, "text/plain", "later", "retry-after: 86400\r\n")});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("86400 s"), std::string::npos);
}

TEST_F(ServiceTest, DoesNotRetryPermanentErrors) {
  for (const int status : {301, 400, 401, 403, 404, 413}) {
    TestServer server({Whole(status, "application/json", R"({"error":{"message":"no"}})",
                             "Location: http://127.0.0.1:1/\r\n")});
    const auto answer = Ask(server, "openai-chat");
    ASSERT_FALSE(answer) << status;
    EXPECT_EQ(server.requests().size(), 1u) << status;
    EXPECT_FALSE(answer.error().remedy.empty());
  }
  EXPECT_EQ(budget_.Spent().money, 0);
}

TEST_F(ServiceTest, RecordsChargesAndRetriesACutStream) {
  const std::string half =
      Data(R"({"choices":[{"delta":{"content":"half an "}}]})") + "data: {\"choi";
  Scripted reset = Stream(half, true);
  reset.reset = true;
  TestServer server({Stream(half, true), reset, Stream(Chat("whole"))});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "whole");
  EXPECT_EQ(received_, "whole");
  ASSERT_EQ(kept_.ended.size(), 3u);
  EXPECT_EQ(kept_.ended[0].answer.text, "half an ");
  EXPECT_TRUE(kept_.ended[0].answer.usage_bound);
  // The cost of a cut stream is unknown, so each is charged at the worst case.
  const Spending worst = kept_.ended[0].worst;
  EXPECT_GE(worst.tokens, 100 + 20);
  EXPECT_EQ(budget_.Spent().tokens, 2 * worst.tokens + 1050);
  EXPECT_EQ(budget_.Spent().money, 2 * worst.money + 1140000);
}

TEST_F(ServiceTest, AcceptsACompleteAnswerDespiteALostConnection) {
  Scripted lost =
      Stream(Chat("all of it", false).substr(0, Chat("all of it", false).size() - 14), true);
  TestServer server({lost});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, "all of it");
  EXPECT_TRUE(answer->usage_bound);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(ServiceTest, RejectsMalformedAnswers) {
  TestServer server({Stream("data: {\"choices\": [}\n\n"), Stream("data: 7\n\n"),
                     Whole(200, "text/html", "<html>hello</html>")});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_FALSE(answer);
  EXPECT_EQ(kept_.ended.size(), 3u);
  EXPECT_NE(kept_.ended[0].failure->error.message.find("not valid JSON"), std::string::npos);
}

TEST_F(ServiceTest, DetectsErrorsWithinAStream) {
  TestServer server(
      {Stream(Data(R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})")),
       Stream(Data(R"({"type":"error","error":{"type":"invalid_request_error"}})"))});
  const auto answer = Ask(server, "anthropic");
  ASSERT_FALSE(answer);
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_TRUE(kept_.ended[0].failure->retry);
}

TEST_F(ServiceTest, NeverPrintsAKey) {
  const std::string echo = std::string("your key ") + kKey + " and sk-very-secret\\/12345";
  TestServer server({Whole(401, "application/json", "{\"error\":{\"message\":\"" + echo + "\"}}"),
                     Whole(400, "text/plain", std::string(280, 'x') + kKey), Stream(Chat(kKey))});
  for (int i = 0; i < 2; ++i) {
    const auto refused = Ask(server, "openai-chat");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().ToString().find("sk-very"), std::string::npos)
        << refused.error().ToString();
  }
  EXPECT_NE(Ask(server, "openai-chat")->text.find("[key]"), std::string::npos);
  for (const Exchange& exchange : kept_.ended) {
    std::string all = DumpJson(ToJson(exchange.request)) + DumpJson(ToJson(exchange.answer));
    if (exchange.failure) all += exchange.failure->error.ToString();
    EXPECT_EQ(all.find("sk-very-secret/"), std::string::npos);
  }
}

TEST_F(ServiceTest, LimitsTimeAndSize) {
  Service service;
  service.name = "slow";
  service.limits.first_byte = milliseconds(150);
  service.limits.idle = milliseconds(150);
  service.limits.max_bytes = 100000;
  Request request;
  request.messages = {{Role::kUser, "?"}};
  request.sampling.max_tokens = 10;
  const auto ask = [&](Scripted script) {
    TestServer server({std::move(script)});
    Service here;
    here.name = service.name;
    here.limits = service.limits;
    here.base = ParseUrl(server.base()).value();
    here.model = "m";
    return ServiceProvider::Create(std::move(here)).value()->Ask(request, {});
  };
  const Reply silent = ask({{{"HTTP/1.1 200 OK\r\n\r\n", 2000}}, false});
  EXPECT_EQ(silent.failure->error.code, ErrorCode::kTimeout);
  EXPECT_EQ(silent.billing, Billing::kUnknown);
  const Reply stalled =
      ask(Stream({{Data(R"({"choices":[{"delta":{"content":"a"}}]})"), 0}, {Chat("b"), 2000}}));
  EXPECT_EQ(stalled.failure->error.code, ErrorCode::kTimeout);
  EXPECT_EQ(stalled.answer.text, "a");
  // Comments keep a slow answer alive.
  const Reply alive =
      ask(Stream({{": a\n\n", 80}, {": b\n\n", 80}, {": c\n\n", 80}, {Chat("x"), 80}}));
  EXPECT_FALSE(alive.failure);
  const Reply giant = ask(Stream(Data("\"" + std::string(200000, 'x') + "\"")));
  EXPECT_NE(giant.failure->error.message.find("larger than 100000"), std::string::npos)
      << giant.failure->error.message;
  EXPECT_FALSE(giant.failure->retry);
}

TEST_F(ServiceTest, StopsWithinASecond) {
  TestServer server(
      {Stream({{Data(R"({"choices":[{"delta":{"content":"a"}}]})"), 0}, {"", 5000}})});
  std::stop_source stop;
  Call call;
  call.stop = stop.get_token();
  call.on_text = [&](std::string_view) { stop.request_stop(); };
  const auto start = std::chrono::steady_clock::now();
  const auto answer = Ask(server, "openai-chat", "", call);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1000));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(kept_.ended.at(0).answer.text, "a");  // the text so far is kept
  EXPECT_GT(budget_.Spent().money, 0);
}

TEST_F(ServiceTest, FailedConnectionsCostNothing) {
  ModelSpec spec;
  {
    TestServer stopped({});
    spec = stopped.Spec("openai-chat");
  }
  OpenOptions open_options;
  open_options.sink = &kept_;
  open_options.retry.attempts = 2;
  open_options.retry.first = milliseconds(1);
  const Models models = OpenModels({spec}, open_options).value();
  Request request;
  request.messages = {{Role::kUser, "?"}};
  const auto answer = models.clients[0]->Ask(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(kept_.ended.size(), 2u);
  EXPECT_EQ(kept_.ended[0].billing, Billing::kNone);
  EXPECT_NE(answer.error().remedy.find("running"), std::string::npos);
}

TEST_F(ServiceTest, ChecksTheBudgetBeforeAsking) {
  TestServer server({Stream(Chat("ok"))});
  budget_.Charge({999'000'000, 0});
  const auto answer = Ask(server, "openai-chat");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("money budget"), std::string::npos);
  EXPECT_TRUE(server.requests().empty());
  // A money budget cannot be enforced for a model without a price.
  OpenOptions open_options;
  open_options.budget = &budget_;
  const Models models = OpenModels({server.Spec("openai-chat")}, open_options).value();
  Request request;
  request.messages = {{Role::kUser, "?"}};
  const auto unpriced = models.clients[0]->Ask(request);
  ASSERT_FALSE(unpriced);
  EXPECT_NE(unpriced.error().remedy.find("prices.json"), std::string::npos);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(ServiceTest, DoesNotUseUnrecordedAnswers) {
  TestServer server({Stream(Chat("ok"))});
  kept_.refuse_to_begin = true;
  EXPECT_FALSE(Ask(server, "openai-chat"));
  EXPECT_TRUE(server.requests().empty());
  EXPECT_EQ(budget_.Spent().tokens, 0);
  kept_.refuse_to_begin = false;
  kept_.refuse = true;
  const auto answer = Ask(server, "openai-chat");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kIo);
  EXPECT_EQ(kept_.began.size(), 1u);
  EXPECT_EQ(budget_.Spent().tokens, 1050);  // but it was charged
}

TEST(ServiceProviderTest, RejectsPlainHttpToOtherMachines) {
  Service service;
  service.base = ParseUrl("http://192.0.2.1/v1").value();
  const auto refused = ServiceProvider::Create(std::move(service));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().remedy.find("http=plain"), std::string::npos);
  EXPECT_TRUE(ParseModelSpec("vllm+http://192.0.2.1/v1:m@http=plain")->allow_plain_http);
}

TEST(OpenTest, RatesOfOneProviderMustAgree) {
  const auto open = [](const char* a, const char* b) {
    return OpenModels({ParseModelSpec(a).value(), ParseModelSpec(b).value()}, {});
  };
  EXPECT_FALSE(open("ollama:a@rpm=3", "ollama:b@rpm=4"));
  const auto shared = open("ollama:a@rpm=3", "ollama:b");
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->limiters.size(), 1u);
  const auto no_key = OpenModels({ParseModelSpec("ollama:a@key=CUPEL_NO_SUCH_KEY").value()}, {});
  ASSERT_FALSE(no_key);
  EXPECT_NE(no_key.error().remedy.find("CUPEL_NO_SUCH_KEY"), std::string::npos);
}

}  // namespace
}  // namespace cupel::llm
