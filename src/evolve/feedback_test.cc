// SPDX-License-Identifier: Apache-2.0
#include "evolve/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

records::LaunchCounters Launch(const std::string& kernel, double us) {
  records::LaunchCounters launch;
  launch.kernel = kernel;
  launch.grid = {100, 1, 1};
  launch.block = {256, 1, 1};
  launch.warp_instructions = 40000;
  launch.bounds = {{"dram", us}};
  launch.estimated_us = us;
  launch.limited_by = "registers";
  launch.blocks_counted = 100;
  records::LineCounters line;
  line.file = "/somewhere/kernel.cu";
  line.line = 2;
  line.work.warp_instructions = 40000;
  line.work.lane_instructions = 32 * 40000;
  line.work.load_requests = 1000;
  line.work.load_sectors = 32000;  // one for each lane
  line.work.touched_bytes = 32000 * 4;
  line.lane_stride = 128;
  launch.lines = {line};
  launch.work = line.work;
  return launch;
}

records::Verdict Accepted() {
  records::Verdict verdict;
  verdict.decision = records::Decision::kAccepted;
  verdict.kernel_path = "/somewhere/kernel.cu";
  records::SettingReport setting;
  setting.id = "single-0";
  setting.kind = task::SettingKind::kSingle;
  setting.description = "batch_size=64";
  setting.counters.launches = {Launch("void small(float*)", 1), Launch("void big<64>(float*)", 9)};
  setting.counters.estimated_us = 12;
  verdict.settings = {setting};
  build::KernelResources resources;
  resources.kernel = "_Z3bigPf";
  resources.registers = 40;
  resources.spill_stores = 16;
  verdict.resources = {resources};
  return verdict;
}

constexpr std::string_view kSource = "int a;\n  sum += x[threadIdx.x * 32];\n";

TEST(Feedback, ShowsBottleneckLineTrafficAndResources) {
  const records::Verdict verdict = Accepted();
  plan::Plan plan;
  plan.buffers.resize(2);
  plan.buffers[0] = {plan::BufferKind::kArgument, 100000, 0, ""};
  plan.buffers[1] = {plan::BufferKind::kTemporary, 999999, -1, ""};
  plan.outputs.resize(1);
  plan.outputs[0].shape = {7000, 1};
  plan.nodes = {{plan::Launch(), {}}, {plan::Gemm(), {}}, {plan::Launch(), {}}, {plan::Fill(), {}}};
  const std::string page = FeedbackPage({.verdict = verdict,
                                         .device = device::All()[0],
                                         .source = kSource,
                                         .objective = "12 us (estimate)",
                                         .plan = &plan,
                                         .planned_setting = "single-0"});
  EXPECT_THAT(page, Not(HasSubstr("The listed settings")));
  EXPECT_LE(page.size(), kMaxFeedback);
  EXPECT_THAT(page, HasSubstr("objective: 12 us (estimate)\n"));
  EXPECT_THAT(page, HasSubstr("A call at batch_size=64: 12 us"));
  EXPECT_THAT(page, HasSubstr("2 launches, 1 product by cuBLAS, 1 copy or fill\n"));
  EXPECT_THAT(page, HasSubstr("2 us of it are copies"));
  EXPECT_THAT(page, HasSubstr("2.05 MB in sectors of 32 bytes, 32 sectors per load"));
  EXPECT_THAT(page, HasSubstr("outputs written once are 128 kB"));
  EXPECT_THAT(page, HasSubstr("16 times as much"));
  EXPECT_THAT(page, HasSubstr("bottleneck: memory bandwidth"));
  EXPECT_THAT(page, HasSubstr("| sum += x[threadIdx.x * 32];"));
  EXPECT_THAT(page, HasSubstr("lanes are 128 bytes apart"));
  EXPECT_THAT(page, HasSubstr("40 registers"));
  EXPECT_THAT(page, HasSubstr("16 B of spills"));
  EXPECT_LT(page.find("big<64><<<100, 256>>>"), page.find("small<<<100, 256>>>"));
}

TEST(Feedback, DescribesTheSlowestOfSeveralSettings) {
  records::Verdict verdict = Accepted();
  records::SettingReport& first = verdict.settings.front();
  first.id = "multi-0";
  first.kind = task::SettingKind::kMulti;
  records::SettingReport slow = first;
  slow.id = "multi-1";
  slow.description = "batch_size=512";
  slow.counters.launches = {Launch("void huge(float*)", 90)};
  slow.counters.estimated_us = 90;
  verdict.settings = {first, slow, first};
  plan::Plan plan;
  const auto page = [&] {
    return FeedbackPage({.verdict = verdict,
                         .device = device::All()[0],
                         .source = kSource,
                         .objective = "",
                         .plan = &plan,
                         .planned_setting = "multi-0"});
  };
  EXPECT_THAT(page(), HasSubstr("at batch_size=64: 12 us\nat batch_size=512: 90 us\n"));
  EXPECT_THAT(page(), HasSubstr("A call at batch_size=512: 90 us"));
  EXPECT_THAT(page(), HasSubstr("huge<<<100, 256>>>"));
  EXPECT_THAT(page(),
              Not(HasSubstr("arguments read once")));  // the plan belongs to another setting
  verdict.settings.assign(40, slow);
  EXPECT_LE(page().size(), kMaxFeedback);
  EXPECT_THAT(page(), HasSubstr("and 30 more"));
}

// A profile of a GPU shows one setting, and a GPU gives no estimates.
TEST(Feedback, NamesMeasuredTimesOfListedSettings) {
  records::Verdict verdict = Accepted();
  records::SettingReport& first = verdict.settings.front();
  first.id = "multi-0";
  first.kind = task::SettingKind::kMulti;
  first.counters = {};
  records::SettingReport second = first, heldout = first, untimed = first;
  second.id = "multi-1";
  second.description = "batch_size=512";
  heldout.id = "heldout-0";
  heldout.kind = task::SettingKind::kHeldout;
  heldout.description = "batch_size=7919";
  untimed.id = "multi-2";
  untimed.description = "batch_size=3";
  verdict.settings = {first, second, heldout, untimed};
  const std::vector<archive::Sample> samples = {{"multi-0", "gpu", "candidate", {3, 2, 2.5}},
                                                {"multi-1", "gpu", "candidate", {9, 7, 8}},
                                                {"heldout-0", "gpu", "candidate", {5555}}};
  const auto page = [&](std::span<const archive::Sample> times) {
    return FeedbackPage({.verdict = verdict,
                         .device = device::All()[0],
                         .source = kSource,
                         .measured = "what a profiler says",
                         .samples = times});
  };
  EXPECT_THAT(
      page(samples),
      HasSubstr("Measured times of a call, with cold caches:\n"
                "at batch_size=64: 2.5 us\nat batch_size=512: 8 us\n\nwhat a profiler says"));
  for (const char* hidden : {"7919", "5555", "batch_size=3"}) {
    EXPECT_THAT(page(samples), Not(HasSubstr(hidden)));
  }
  // The prompt already has the only time.
  EXPECT_THAT(page(std::span(samples).first(1)), Not(HasSubstr("Measured")));
}

// A kernel could be written for the sizes of held-out settings.
TEST(Feedback, NamesListedSettingsOnly) {
  records::Verdict verdict = Accepted();
  records::SettingReport heldout = verdict.settings.front();
  heldout.id = "heldout-0";
  heldout.kind = task::SettingKind::kHeldout;
  heldout.description = "batch_size=7919";
  heldout.derived = "batch_size=7919";
  heldout.counters.estimated_us = 5555;
  records::SettingReport listed = verdict.settings.front();
  listed.id = "multi-0";
  listed.kind = task::SettingKind::kMulti;
  listed.description = "batch_size=96";
  const auto page = [&] {
    return FeedbackPage({.verdict = verdict, .device = device::All()[0], .source = kSource});
  };
  verdict.settings = {listed, heldout, listed};
  EXPECT_THAT(page(), HasSubstr("A call at batch_size=96"));
  EXPECT_THAT(page(), HasSubstr("at batch_size=96: 12 us\n"));
  for (const char* secret : {"7919", "5555"}) EXPECT_THAT(page(), Not(HasSubstr(secret)));
  verdict.settings = {heldout};
  for (const char* secret : {"7919", "5555"}) EXPECT_THAT(page(), Not(HasSubstr(secret)));
}

// A template has many instances, and only some of them run.
TEST(Feedback, ListsTheResourcesOfLaunchedKernelsFirst) {
  records::Verdict verdict = Accepted();
  verdict.settings.front().counters.launches = {Launch("big(float*)", 9)};
  build::KernelResources other;
  other.registers = 99;
  verdict.resources.clear();
  for (int i = 0; i < 20; ++i) {
    other.kernel = "_Z7other" + std::to_string(10 + i) + "Pf";
    verdict.resources.push_back(other);
  }
  other.kernel = "_Z3bigPf";
  verdict.resources.push_back(other);
  const std::string page =
      FeedbackPage({.verdict = verdict, .device = device::All()[0], .source = kSource});
  EXPECT_THAT(page, HasSubstr("ptxas: big: 99 registers"));
}

TEST(Feedback, KnowsWhatLimitsAKernel) {
  EXPECT_EQ(LimitOf(Accepted(), "").name, "memory bandwidth");
  EXPECT_EQ(LimitOf(Accepted(), "").bound, "memory");
  const Limit measured =
      LimitOf(Accepted(), "k: 9 us\n  bottleneck: the SM's pipes, 69 % of the peak\n");
  EXPECT_EQ(measured.name, "the SM's pipes");
  EXPECT_EQ(measured.bound, "compute");
  EXPECT_EQ(LimitOf(Accepted(), "a page without it").name, "");
}

TEST(Feedback, SaysThatSizesAreReduced) {
  records::Verdict verdict = Accepted();
  verdict.settings.front().reduced = "batch_size=64 (of 4096)";
  EXPECT_THAT(
      FeedbackPage({.verdict = verdict, .device = device::All()[0], .source = kSource}),
      HasSubstr("A call at batch_size=64 (smaller than the task's own: batch_size=64 (of 4096))"));
}

TEST(Feedback, ReplacesCountsByAGpuProfile) {
  const records::Verdict verdict = Accepted();
  const std::string page = FeedbackPage({.verdict = verdict,
                                         .device = device::All()[0],
                                         .source = kSource,
                                         .objective = "5 us",
                                         .measured = "ncu says: 80 % of DRAM's bandwidth"});
  EXPECT_THAT(page, HasSubstr("ncu says: 80 % of DRAM's bandwidth\n"));
  EXPECT_THAT(page, Not(HasSubstr("estimate")));
  EXPECT_THAT(page, HasSubstr("40 registers"));
}

TEST(Feedback, IsBounded) {
  records::Verdict verdict = Accepted();
  const std::string long_text(100000, 'x');
  verdict.settings[0].counters.launches[0].kernel = long_text;
  std::string page = FeedbackPage(
      {.verdict = verdict, .device = device::All()[0], .source = kSource, .objective = ""});
  EXPECT_LE(page.size(), kMaxFeedback);
  EXPECT_THAT(page, HasSubstr("40 registers"));
  page = FeedbackPage({.verdict = verdict,
                       .device = device::All()[0],
                       .source = kSource,
                       .objective = "",
                       .measured = long_text,
                       .remarks = long_text});
  EXPECT_LE(page.size(), kMaxFeedback);
}

TEST(Recommendations, RequiresExactlyThree) {
  EXPECT_THAT(ReadRecommendations("I looked.\n\nRECOMMENDATIONS:\n1. Vectorise the loads:\n   they "
                                  "are half.\n2. **Fuse.**\n\n3. Unroll.\n")
                  .value(),
              ElementsAre("Vectorise the loads: they are half.", "Fuse.", "Unroll."));
  for (const char* bad :
       {"", "1. a\n2. b\n3. c", "RECOMMENDATIONS:\n1. a\n2. b", "RECOMMENDATIONS:\nFirst: 1. a",
        "RECOMMENDATIONS:\n1. a\n2. b\n3. c\n4. d x", "RECOMMENDATIONS:\n2. a\n3. b\n4. c",
        "RECOMMENDATIONS:\n1.\n2. b\n3. c"}) {
    const auto read = ReadRecommendations(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().ToString(), HasSubstr("RECOMMENDATIONS:\n1."));
  }
}

class ScriptedSummariser final : public llm::Asker {
 public:
  explicit ScriptedSummariser(std::vector<std::string> answers) : answers_(std::move(answers)) {}
  Result<llm::Answer> Ask(std::string_view role, const llm::Request& request,
                          const llm::Call&) override {
    EXPECT_EQ(role, "summariser");
    llm::Answer answer;
    answer.text = answers_[requests.size()];
    requests.push_back(request);
    return answer;
  }
  const std::string& model() const override { return name_; }
  std::string HashOf(const llm::Request& request) const override { return llm::HashOf(request); }
  std::vector<llm::Request> requests;

 private:
  std::string name_ = "test:model";
  std::vector<std::string> answers_;
};

TEST(Recommendations, AsksOnceMoreAfterAnUnusableAnswer) {
  ScriptedSummariser corrected({"Use shared memory.", "RECOMMENDATIONS:\n1. a\n2. b\n3. c"});
  const auto advice = Recommend(corrected, "add one", "int a;", "bound by dram");
  ASSERT_TRUE(advice);
  EXPECT_THAT(*advice, ElementsAre("a", "b", "c"));
  EXPECT_THAT(corrected.requests[0].messages[0].text, HasSubstr("bound by dram"));
  EXPECT_THAT(corrected.requests[1].messages[2].text, HasSubstr("RECOMMENDATIONS: is missing"));
  ScriptedSummariser unusable({"No.", "No."});
  EXPECT_FALSE(Recommend(unusable, "add one", "int a;", "bound by dram"));
}

}  // namespace
}  // namespace cupel::evolve
