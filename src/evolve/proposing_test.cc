// SPDX-License-Identifier: Apache-2.0
#include "evolve/proposing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

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
    EXPECT_THAT(role, testing::StartsWith("proposer"));
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

using FindFault = std::function<Result<std::string>(const std::string&)>;

Result<std::string> NoFault(const std::string&) { return std::string(); }

Result<std::vector<Proposed>> Ask(
    const std::vector<Slot>& slots, ScriptedProposer& model, const FindFault& find_fault = NoFault,
    const ProposingOptions& options = {},
    const std::function<void(const std::string&)>& prepare = [](const std::string&) {}) {
  return AskForProposals(slots, {&model}, options, {prepare, find_fault, [](int) {}});
}

TEST(Proposing, AsksForEachSlotSeparately) {
  ScriptedProposer model([](const llm::Request& request) {
    return Rewrite("k", "int sample_" + std::to_string(request.sample) + ";");
  });
  const auto proposed = *Ask({SlotOf(0), SlotOf(1)}, model);
  ASSERT_EQ(proposed.size(), 2u);
  EXPECT_NE(proposed[0].kernels[0].source, proposed[1].kernels[0].source);
  EXPECT_NE(proposed[0].exchange, proposed[1].exchange);
  EXPECT_EQ(proposed[0].kernels[0].name, "k");
  EXPECT_EQ(proposed[0].kernels[0].thought, "why not");
  EXPECT_THAT(proposed[0].problem, IsEmpty());
}

TEST(Proposing, AsksOnceMoreAfterAnUnreadableAnswer) {
  ScriptedProposer model([](const llm::Request& request) {
    return request.messages.size() == 1 ? "I would rather talk." : Rewrite("k", "int x;");
  });
  const auto proposed = *Ask({SlotOf(0)}, model);
  EXPECT_THAT(proposed[0].problem, IsEmpty());
  EXPECT_THAT(proposed[0].kernels[0].source, HasSubstr("int x;"));
  EXPECT_EQ(model.requests.size(), 2u);

  ScriptedProposer unreadable([](const llm::Request&) { return "Still talking."; });
  const auto none = *Ask({SlotOf(0)}, unreadable);
  EXPECT_NE(none[0].problem, "");
  EXPECT_FALSE(none[0].not_asked);
  EXPECT_EQ(unreadable.requests.size(), 2u);
}

TEST(Proposing, PreparesKernelsAtTheSameTimeBeforeTheyAreLookedAt) {
  ScriptedProposer model([](const llm::Request& request) {
    return Rewrite("k", "int sample_" + std::to_string(request.sample) + ";");
  });
  std::latch both(2);
  std::mutex mutex;
  std::set<std::string> prepared;
  const auto prepare = [&](const std::string& source) {
    both.arrive_and_wait();  // for ever, if one thread prepares them
    const std::lock_guard lock(mutex);
    prepared.insert(source);
  };
  const auto look = [&](const std::string& source) -> Result<std::string> {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(prepared.contains(source));
    return std::string();
  };
  const auto proposed = *Ask({SlotOf(0), SlotOf(1)}, model, look, {}, prepare);
  ASSERT_EQ(proposed.size(), 2u);
  EXPECT_EQ(prepared.size(), 2u);
}

std::string EditOf(const std::string& search, const std::string& replace) {
  return "<<<<<<< SEARCH\n" + search + "\n=======\n" + replace + "\n>>>>>>> REPLACE\n";
}

TEST(Proposing, AppliesEditsToTheParent) {
  ScriptedProposer model([](const llm::Request&) {
    return "NAME: e\nTHOUGHT: t\n\n" + EditOf("int b = 2;", "int b = 3;");
  });
  const auto proposed = *Ask({SlotOf(0, Operator::kEdit)}, model);
  ASSERT_EQ(proposed[0].kernels.size(), 1u) << proposed[0].problem;
  EXPECT_EQ(proposed[0].kernels[0].source, "int a = 1;\nint b = 3;\n");
}

// The kernel and the conversation before are not sent again.
TEST(Proposing, ASmallQuestionCorrectsAnEditThatFails) {
  ScriptedProposer model([](const llm::Request& request) {
    const bool first = request.messages[0].text.find("could not be applied") == std::string::npos;
    return "NAME: e\nTHOUGHT: t\n\n" +
           (first ? EditOf("int a = 1;", "int a = 7;") + EditOf("int b  = 2;", "int b = 3;")
                  : EditOf("int b = 2;", "int b = 3;"));
  });
  const auto proposed = *Ask({SlotOf(0, Operator::kEdit)}, model);
  ASSERT_EQ(proposed[0].kernels.size(), 1u) << proposed[0].problem;
  EXPECT_EQ(proposed[0].kernels[0].source, "int a = 7;\nint b = 3;\n");
  EXPECT_EQ(proposed[0].kernels[0].exchanges.size(), 2u);
  ASSERT_EQ(model.requests.size(), 2u);
  EXPECT_EQ(model.requests[1].messages.size(), 1u);
  EXPECT_THAT(model.requests[1].messages[0].text, HasSubstr("int b = 2;"));
  EXPECT_THAT(model.requests[1].messages[0].text, HasSubstr("=======\nint b = 3;"));
  EXPECT_EQ(model.requests[1].messages[0].text.find("add one"), std::string::npos);
}

TEST(Proposing, AsksAgainOnlyAfterAFailure) {
  const auto script = [](const llm::Request& request) {
    return request.messages.size() == 1 ? Rewrite("first", "int x;") : Rewrite("second", "int y;");
  };
  ScriptedProposer right(script);
  EXPECT_EQ((*Ask({SlotOf(0)}, right))[0].kernels.size(), 1u);
  EXPECT_EQ(right.requests.size(), 1u);

  ScriptedProposer wrong(script);
  const FindFault fault = [](const std::string& source) -> Result<std::string> {
    return source.find("int x;") == std::string::npos ? "" : "- out_of_bounds, line 1\n";
  };
  const auto proposed = *Ask({SlotOf(0)}, wrong, fault);
  ASSERT_EQ(proposed[0].kernels.size(), 2u);
  EXPECT_THAT(proposed[0].kernels[1].source, HasSubstr("int y;"));
  EXPECT_EQ(proposed[0].kernels[1].exchanges.size(), 1u);
  EXPECT_THAT(wrong.requests[1].messages.back().text, HasSubstr("- out_of_bounds, line 1"));

  ScriptedProposer hopeless(script);
  const FindFault always = [](const std::string&) -> Result<std::string> { return "- wrong\n"; };
  EXPECT_EQ((*Ask({SlotOf(0)}, hopeless, always))[0].kernels.size(), 2u);
  EXPECT_EQ(hopeless.requests.size(), 2u);  // one repair
}

TEST(Proposing, ARepairThatSaysNothingNewEndsTheProposal) {
  const FindFault always = [](const std::string&) -> Result<std::string> { return "- wrong\n"; };
  ProposingOptions many;
  many.repairs = 5;
  for (const char* last : {"I am done", "nonsense", "", "same"}) {
    ScriptedProposer model([&](const llm::Request& request) {
      const bool kernel = request.messages.size() == 1 || std::string(last) == "same";
      return kernel ? Rewrite("first", "int x;") : std::string(last);
    });
    const auto proposed = *Ask({SlotOf(0)}, model, always, many);
    ASSERT_EQ(proposed[0].kernels.size(), 1u) << last;
    EXPECT_THAT(proposed[0].kernels[0].source, HasSubstr("int x;")) << last;
    EXPECT_FALSE(proposed[0].not_asked);
    EXPECT_LE(model.requests.size(), 3u) << last;
  }
}

// So that the judge works while other models still write.
TEST(Proposing, LooksAtKernelsWhileOthersAreWritten) {
  std::promise<void> seen;
  std::shared_future<void> looked(seen.get_future());
  ScriptedProposer model([&](const llm::Request& request) {
    if (request.sample % 2 == 1) looked.wait();
    return Rewrite("k", "int sample_" + std::to_string(request.sample) + ";");
  });
  int count = 0;
  const auto caller = std::this_thread::get_id();
  const auto proposed = *Ask({SlotOf(0), SlotOf(1)}, model, [&](const std::string&) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    if (++count == 1) seen.set_value();
    return Result<std::string>("");
  });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(proposed.size(), 2u);
}

TEST(Proposing, AnErrorOfTheJudgeEndsTheGeneration) {
  ScriptedProposer model([](const llm::Request&) { return Rewrite("k", "int x;"); });
  const auto failed = Ask({SlotOf(0), SlotOf(1)}, model, [](const std::string&) {
    return Result<std::string>(Fail(ErrorCode::kEnvironment, "PyTorch is gone"));
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "PyTorch is gone");
}

TEST(Proposing, SequentialProposalsSeeEarlierOnes) {
  ScriptedProposer model([](const llm::Request& request) {
    const size_t round = request.messages.size() / 2;
    return Rewrite("kernel" + std::to_string(round), "int v" + std::to_string(round) + ";");
  });
  ProposingOptions options;
  options.sequential = true;
  const auto proposed = *Ask({SlotOf(0), SlotOf(1), SlotOf(2)}, model, NoFault, options);
  ASSERT_EQ(proposed.size(), 3u);
  EXPECT_EQ(proposed[2].kernels[0].name, "kernel2");
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
  EXPECT_THAT((*Ask({SlotOf(0)}, refuses))[0].problem, HasSubstr("declined"));
}

}  // namespace
}  // namespace cupel::evolve
