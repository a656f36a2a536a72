// SPDX-License-Identifier: Apache-2.0
#include "evolve/proposing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

namespace cupel::evolve {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string Rewrite(const std::string& name, const std::string& code) {
  return "NAME: " + name + "\nTHOUGHT: why not\n\n```cuda\n" + code + "\n```\n";
}

/// Answers by calling a script. An empty answer is an error.
class ScriptedProposer final : public llm::Asker {
 public:
  explicit ScriptedProposer(std::function<std::string(const llm::Request&)> script)
      : script_(std::move(script)) {}
  Result<llm::Answer> Ask(std::string_view role, const llm::Request& request,
                          const llm::Call&) override {
    EXPECT_EQ(role, "proposer");
    llm::Answer answer;
    answer.text = script_(request);
    answer.stop = answer.text == "refused" ? llm::Stop::kRefusal : llm::Stop::kEnd;
    const std::lock_guard lock(mutex_);
    requests.push_back(request);
    if (answer.text.empty()) return Fail(ErrorCode::kIo, "no network", "plug it in");
    return answer;
  }
  const std::string& model() const override { return name_; }
  std::string HashOf(const llm::Request& request) const override { return llm::HashOf(request); }

  std::vector<llm::Request> requests;

 private:
  std::mutex mutex_;
  std::string name_ = "test:model";
  std::function<std::string(const llm::Request&)> script_;
};

Slot SlotOf(int number, Operator op = Operator::kRewrite) {
  Slot slot;
  slot.number = number;
  slot.op = op;
  slot.context.operation = "add one";
  ParentKernel parent;
  parent.source = "int a = 1;\nint b = 2;\n";
  slot.context.parents = {parent};
  return slot;
}

Result<std::vector<Proposed>> Ask(const std::vector<Slot>& slots, ScriptedProposer& model,
                                  ProposingOptions options = {}) {
  return AskForProposals(slots, {&model}, options, [](int) {});
}

ProposingOptions NoReflection() {
  ProposingOptions options;
  options.reflections = 0;
  return options;
}

TEST(Proposing, AsksForEachSlotSeparately) {
  ScriptedProposer model([](const llm::Request& request) {
    return Rewrite("k", "int sample_" + std::to_string(request.sample) + ";");
  });
  const auto proposed = *Ask({SlotOf(0), SlotOf(1)}, model, NoReflection());
  ASSERT_EQ(proposed.size(), 2u);
  EXPECT_NE(proposed[0].source, proposed[1].source);
  EXPECT_NE(proposed[0].exchange, proposed[1].exchange);
  EXPECT_EQ(proposed[0].name, "k");
  EXPECT_EQ(proposed[0].thought, "why not");
  EXPECT_THAT(proposed[0].problem, IsEmpty());
}

TEST(Proposing, AsksOnceMoreAfterAnUnreadableAnswer) {
  ScriptedProposer model([](const llm::Request& request) {
    return request.messages.size() == 1 ? "I would rather talk." : Rewrite("k", "int x;");
  });
  const auto proposed = *Ask({SlotOf(0)}, model, NoReflection());
  EXPECT_THAT(proposed[0].problem, IsEmpty());
  EXPECT_THAT(proposed[0].source, HasSubstr("int x;"));
  EXPECT_EQ(model.requests.size(), 2u);

  ScriptedProposer unreadable([](const llm::Request&) { return "Still talking."; });
  const auto none = *Ask({SlotOf(0)}, unreadable, NoReflection());
  EXPECT_NE(none[0].problem, "");
  EXPECT_FALSE(none[0].not_asked);
  EXPECT_EQ(unreadable.requests.size(), 2u);
}

TEST(Proposing, AppliesEditsToTheParent) {
  ScriptedProposer model([](const llm::Request&) {
    return "NAME: e\nTHOUGHT: t\n\n<<<<<<< SEARCH\nint b = 2;\n=======\nint b = 3;\n>>>>>>> "
           "REPLACE\n";
  });
  const auto proposed = *Ask({SlotOf(0, Operator::kEdit)}, model, NoReflection());
  EXPECT_EQ(proposed[0].source, "int a = 1;\nint b = 3;\n") << proposed[0].problem;
}

TEST(Proposing, ReflectionImprovesOrKeepsTheKernel) {
  ScriptedProposer better([](const llm::Request& request) {
    return request.messages.size() == 1 ? Rewrite("first", "int x;") : Rewrite("second", "int y;");
  });
  EXPECT_THAT((*Ask({SlotOf(0)}, better))[0].source, HasSubstr("int y;"));
  for (const char* last : {"I am done", "nonsense", ""}) {
    ScriptedProposer same([&](const llm::Request& request) {
      return request.messages.size() == 1 ? Rewrite("first", "int x;") : std::string(last);
    });
    const auto proposed = *Ask({SlotOf(0)}, same);
    EXPECT_THAT(proposed[0].source, HasSubstr("int x;")) << last;
    EXPECT_EQ(proposed[0].name, "first");
    EXPECT_EQ(proposed[0].exchanges.size(), 2u);
    EXPECT_THAT(proposed[0].problem, IsEmpty());
  }
}

TEST(Proposing, SequentialProposalsSeeEarlierOnes) {
  ScriptedProposer model([](const llm::Request& request) {
    const size_t round = request.messages.size() / 2;
    return Rewrite("kernel" + std::to_string(round), "int v" + std::to_string(round) + ";");
  });
  ProposingOptions options = NoReflection();
  options.sequential = true;
  const auto proposed = *Ask({SlotOf(0), SlotOf(1), SlotOf(2)}, model, options);
  ASSERT_EQ(proposed.size(), 3u);
  EXPECT_EQ(proposed[2].name, "kernel2");
  ASSERT_EQ(model.requests.size(), 3u);
  EXPECT_EQ(model.requests[2].messages.size(), 5u);
  EXPECT_THAT(model.requests[2].messages.back().text, HasSubstr("kernel1"));
}

TEST(Proposing, ReportsWhyAModelCannotBeAsked) {
  ScriptedProposer model([](const llm::Request&) { return ""; });
  const auto proposed = *Ask({SlotOf(0), SlotOf(1)}, model);
  EXPECT_TRUE(proposed[1].not_asked);
  EXPECT_EQ(proposed[1].error.remedy, "plug it in");
  ScriptedProposer refuses([](const llm::Request&) { return "refused"; });
  EXPECT_THAT((*Ask({SlotOf(0)}, refuses, NoReflection()))[0].problem, HasSubstr("declined"));
}

}  // namespace
}  // namespace cupel::evolve
