// SPDX-License-Identifier: Apache-2.0
#include "llm/spec.h"

#include <gtest/gtest.h>

#include "base/words.h"

namespace cupel::llm {
namespace {

TEST(SpecTest, ReadsServices) {
  const ModelSpec plain = ParseModelSpec("anthropic:some-model").value();
  EXPECT_EQ(plain.format, WireFormat::kAnthropic);
  EXPECT_EQ(plain.base.Text(), "https://api.anthropic.com/v1");
  EXPECT_EQ(plain.model, "some-model");
  EXPECT_EQ(plain.key_variable, "ANTHROPIC_API_KEY");
  EXPECT_GT(plain.sampling.max_tokens.value(), 0);

  const ModelSpec options =
      ParseModelSpec("openai:x@y@effort=high,temperature=1,max_tokens=9,rpm=5,thinking=adaptive")
          .value();
  EXPECT_EQ(options.model, "x@y");
  EXPECT_EQ(options.name, "openai:x@y");
  EXPECT_EQ(options.sampling.effort, "high");
  EXPECT_EQ(options.sampling.temperature, 1.0);
  EXPECT_EQ(options.sampling.max_tokens, 9);
  EXPECT_EQ(options.sampling.thinking_tokens, kAdaptiveThinking);
  EXPECT_EQ(options.rates.requests_a_minute, 5);
}

TEST(SpecTest, SeparatesTheBaseUrlFromTheModel) {
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"openai-chat+http://localhost:8000/v1:q/m:7b", {"http://localhost:8000/v1", "q/m:7b"}},
      {"openai-chat+https://host:m", {"https://host", "m"}},
      {"openai-chat+https://host:81:m:free", {"https://host:81", "m:free"}},
      {"openai-chat+https://host/a/b/:4o", {"https://host/a/b", "4o"}},
      {"openai-chat+http://[::1]:8000/v1:m", {"http://[::1]:8000/v1", "m"}},
      {"ollama:m:8b", {"http://localhost:11434/v1", "m:8b"}},
  };
  for (const auto& [text, wanted] : cases) {
    const auto spec = ParseModelSpec(text);
    ASSERT_TRUE(spec) << text << ": " << spec.error().message;
    EXPECT_EQ(spec->base.Text(), wanted.first) << text;
    EXPECT_EQ(spec->model, wanted.second) << text;
  }
}

TEST(SpecTest, SendsNoKeyToAnotherBaseUrlUnlessNamed) {
  EXPECT_EQ(ParseModelSpec("openai+https://other.example/v1:m")->key_variable, "");
  EXPECT_EQ(ParseModelSpec("openai+https://other.example/v1:m@key=OTHER")->key_variable, "OTHER");
}

TEST(SpecTest, ReadsCommandsMailboxesAndReplays) {
  const ModelSpec command =
      ParseModelSpec("command:/opt/agent -p 'two words' a@b=c @timeout=2.5,weight=3").value();
  EXPECT_EQ(command.argv, (std::vector<std::string>{"/opt/agent", "-p", "two words", "a@b=c"}));
  EXPECT_EQ(command.name, "command:agent");  // arguments may contain secrets
  EXPECT_EQ(command.timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(command.weight, 3);
  EXPECT_EQ(ParseModelSpec("mailbox:/a/b@name=me")->path, "/a/b");
  EXPECT_EQ(ParseModelSpec("mailbox:/a/b@name=me")->name, "me");
  EXPECT_EQ(ParseModelSpec("replay:run.jsonl")->kind, ProviderKind::kReplay);
}

TEST(SpecTest, ReportsWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "has no provider"},
      {"gpt", "has no provider"},
      {"foo:bar", "no provider \"foo\""},
      {"openai:", "not a model name"},
      {"openai:a b", "not a model name"},
      {"openai:m@speed=3", "no option \"speed\""},
      {"openai:m@temperature=hot", "temperature=hot"},
      {"openai:m@temperature=1,rpm", "has no value"},
      {"openai:m@max_tokens=0", "max_tokens=0"},
      {"openai:m@temperature=nan", "temperature=nan"},
      {"openai+ftp://x:m", "https://"},
      {"openai+https://user:secret@host/v1:m", "user name"},
      {"openai+https://user:123@host:m", "user name"},
      {"openai+https://host/v1", "no model follows"},
      {"@a=b:c", "nothing before"},
      {"openai@a=b:c", "nothing before"},
      {"command:", "no program"},
      {"command:'x", "not closed"},
      {"mailbox:", "no file or folder"},
  };
  for (const auto& [text, message] : cases) {
    const auto spec = ParseModelSpec(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_NE(spec.error().message.find(message), std::string::npos)
        << text << ": " << spec.error().message;
    EXPECT_EQ(spec.error().message.find("secret"), std::string::npos);
  }
}

TEST(UrlTest, DetectsLoopback) {
  for (const char* text : {"http://localhost", "http://127.9.9.9:1/x", "http://[::1]"}) {
    EXPECT_TRUE(ParseUrl(text)->Loopback()) << text;
  }
  for (const char* text : {"http://127.0.0.1.evil.example", "http://localhost.x", "http://10.0.0.1",
                           "http://[::2]", "http://127.1"}) {
    EXPECT_FALSE(ParseUrl(text)->Loopback()) << text;
  }
  for (const char* text : {"http://a@b", "http://", "http://h?x", "http://h/p#f", "http://h:0",
                           "http://h:99999", "http://h/\r\nX: y", "file:///etc", "http://[::g]"}) {
    EXPECT_FALSE(ParseUrl(text)) << text;
  }
}

TEST(WordsTest, SplitsLikeAShellWithoutExpansion) {
  EXPECT_EQ(SplitWords(R"(a "b \"c\" \n" 'd\' e\ f "" $HOME;*)").value(),
            (std::vector<std::string>{"a", R"(b "c" \n)", "d\\", "e f", "", "$HOME;*"}));
  EXPECT_FALSE(SplitWords("a \"b"));
  EXPECT_FALSE(SplitWords("a \\"));
}

}  // namespace
}  // namespace cupel::llm
