// SPDX-License-Identifier: Apache-2.0
#include "review/calibrate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::review {
namespace {

using testing::HasSubstr;

/// Answers with the verdicts of a callback, which gets the case number from the operation's text.
class FakeReviewer : public llm::Asker {
 public:
  using Verdict = std::function<bool(Aspect aspect, int number, const std::string& system)>;
  explicit FakeReviewer(Verdict verdict) : verdict_(std::move(verdict)) {}
  Result<llm::Answer> Ask(std::string_view, const llm::Request& request,
                          const llm::Call&) override {
    const std::string& text = request.messages[0].text;
    const int number = std::stoi(text.substr(text.find("case ") + 5));
    llm::Answer answer;
    for (const Aspect aspect : kAllAspects) {
      const bool fine = verdict_(aspect, number, request.system);
      answer.text +=
          fmt::format("CHECK: {}\nVERDICT: {}\nCONFIDENCE: 0.9\nLINE: {}\nREASON: so it seems\n",
                      Name(aspect), fine ? "fine" : "wrong", fine ? "none" : "1: int x;");
    }
    answer.usd = 0.01;
    const std::lock_guard lock(mutex_);
    ++asked;
    return answer;
  }
  const std::string& model() const override { return name_; }
  std::string HashOf(const llm::Request& request) const override { return llm::HashOf(request); }
  int asked = 0;

 private:
  std::mutex mutex_;
  const std::string name_ = "test:reviewer";
  Verdict verdict_;
};

/// 20 correct kernels, then 8 wrong ones of each aspect: 20..27 compile, 28..35 memory, 36..43
/// numerics.
std::vector<CalibrationCase> Cases() {
  std::vector<CalibrationCase> cases;
  for (int i = 0; i < 44; ++i) {
    CalibrationCase one;
    one.label.id = fmt::format("kernel {}", i);
    if (i >= 20) one.label.wrong = kAllAspects[static_cast<size_t>(i - 20) / 8];
    one.subject.source = "int x;\n";
    one.subject.operation = fmt::format("case {}", i);
    cases.push_back(one);
  }
  return cases;
}

bool IsWrong(Aspect aspect, int i) { return i >= 20 && aspect == kAllAspects[(i - 20) / 8]; }

TEST(ReportingHalf, IsStratifiedAndDeterministic) {
  const auto cases = Cases();
  const auto half = ReportingHalf(cases);
  EXPECT_EQ(half, ReportingHalf(cases));
  for (int begin : {20, 28, 36}) {
    EXPECT_EQ(std::count(half.begin() + begin, half.begin() + begin + 8, true), 4);
  }
  EXPECT_EQ(std::count(half.begin(), half.begin() + 20, true), 10);
  auto reversed = cases;
  std::reverse(reversed.begin(), reversed.end());
  auto other = ReportingHalf(reversed);
  std::reverse(other.begin(), other.end());
  EXPECT_EQ(half, other);
}

TEST(Calibrate, FindsTheThresholdForGoodReviewers) {
  FakeReviewer reviewer(
      [](Aspect aspect, int i, const std::string&) { return !IsWrong(aspect, i); });
  const auto cases = Cases();
  const auto result = Calibrate(cases, {&reviewer}, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(reviewer.asked, 44);  // no opinions differ
  EXPECT_NEAR(result->usd, 44 * 0.01, 1e-9);
  // One of three objects: a majority passes all wrong kernels, the tuned vote none.
  EXPECT_EQ(result->majority.found, 0);
  EXPECT_EQ(result->vote.found, 12);
  EXPECT_EQ(result->vote.stopped, 0);
  EXPECT_EQ(result->verifiers.size(), 3u);
  EXPECT_EQ(result->verifiers[1].rates.Balanced(), 1);
  // Kernels that do not compile are not counted for memory.
  EXPECT_EQ(result->verifiers[0].rates.all(), 22);
  EXPECT_EQ(result->verifiers[1].rates.all(), 18);
  EXPECT_EQ(result->verifiers[2].rates.all(), 14);
}

TEST(Calibrate, ReportsOnTheHalfThatWasNotTuned) {
  const auto cases = Cases();
  const auto half = ReportingHalf(cases);
  // Right on the tuning half, wrong on the reporting half.
  FakeReviewer reviewer([&](Aspect aspect, int i, const std::string&) {
    return half[static_cast<size_t>(i)] ? IsWrong(aspect, i) : !IsWrong(aspect, i);
  });
  const auto result = Calibrate(cases, {&reviewer}, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->vote_tuning.found + result->vote_tuning.passed, 22);
  EXPECT_EQ(result->verifiers[0].rates.found + result->verifiers[0].rates.passed, 0);
}

TEST(Calibrate, ChoosesAmongInstructions) {
  FakeReviewer reviewer([](Aspect aspect, int i, const std::string& system) {
    const bool good = system.find("look closely") != std::string::npos || aspect != Aspect::kMemory;
    return good ? !IsWrong(aspect, i) : true;
  });
  CalibrateOptions options;
  options.variants[1].push_back({"close", "look closely"});
  options.reflect = false;
  const auto cases = Cases();
  const auto result = Calibrate(cases, {&reviewer}, options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->options.instructions[1], "look closely");
  EXPECT_EQ(result->options.instructions[0], DefaultInstructions()[0]);
  // The reporting half is asked only with the chosen variant.
  EXPECT_EQ(reviewer.asked, 22 * 2 + 22);
  EXPECT_EQ(result->tuning.size(), 4u);
}

TEST(Calibrate, GivesARandomVerifierLittleWeight) {
  FakeReviewer reviewer([](Aspect aspect, int i, const std::string&) {
    return aspect == Aspect::kNumerics ? i % 2 == 0 : !IsWrong(aspect, i);
  });
  CalibrateOptions options;
  options.reflect = false;
  const auto result = Calibrate(Cases(), {&reviewer}, options);
  ASSERT_TRUE(result);
  EXPECT_LT(result->options.weights[2], 0.3);
  EXPECT_GT(result->options.weights[0], 0.9);
}

TEST(Calibrate, AsksAllAtOnce) {
  // No question is answered before all have been asked.
  std::latch all(44);
  FakeReviewer reviewer([&](Aspect, int, const std::string&) {
    static thread_local bool arrived = false;  // once for the three aspects of a question
    if (!std::exchange(arrived, true)) all.arrive_and_wait();
    return true;
  });
  CalibrateOptions options;
  options.reflect = false;
  EXPECT_TRUE(Calibrate(Cases(), {&reviewer}, options));
}

TEST(Calibrate, RejectsTooFewCases) {
  auto cases = Cases();
  cases.resize(10);
  EXPECT_FALSE(Calibrate(cases, {}, {}));
}

TEST(ReadCalibration, ReadsWhatWasWritten) {
  FakeReviewer reviewer(
      [](Aspect aspect, int i, const std::string&) { return !IsWrong(aspect, i); });
  const auto cases = Cases();
  const auto result = Calibrate(cases, {&reviewer}, {.reflect = false});
  ASSERT_TRUE(result);
  Json json{{"schema", "cupel.calibration/1"}};
  json.update(ToJson(*result, cases));
  auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const auto file = folder->path() / "calibration.json";
  ASSERT_TRUE(os::WriteFileAtomically(file, DumpJson(json)));
  const auto options = ReadCalibration(file);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->threshold, result->options.threshold);
  EXPECT_EQ(options->weights[1], result->options.weights[1]);
  EXPECT_EQ(options->instructions, result->options.instructions);
  EXPECT_FALSE(options->reflect);
  for (const char* key : {"schema", "options"}) {
    Json broken = json;
    broken.erase(key);
    ASSERT_TRUE(os::WriteFileAtomically(file, DumpJson(broken)));
    EXPECT_FALSE(ReadCalibration(file)) << key;
  }
  json["options"]["threshold"] = 7;
  ASSERT_TRUE(os::WriteFileAtomically(file, DumpJson(json)));
  EXPECT_THAT(ReadCalibration(file).error().message, HasSubstr("threshold"));
}

TEST(ReadLabels, DerivesTheLabelOfEachVerifier) {
  auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const auto file = folder->path() / "labels.json";
  ASSERT_TRUE(os::WriteFileAtomically(
      file, R"({"kernels": [{"id": "a", "kernel": "k/a.cu", "task": "softmax"},
                {"id": "b", "kernel": "b.cu", "task": "../t", "backward": true, "wrong": "memory",
                 "reason": "shared_race"}]})"));
  const auto labels = ReadLabels(file);
  ASSERT_TRUE(labels) << labels.error().message;
  EXPECT_EQ((*labels)[0].kernel, folder->path() / "k/a.cu");
  EXPECT_EQ((*labels)[0].task, "softmax");
  EXPECT_EQ((*labels)[0].Fine(Aspect::kNumerics), std::optional(true));
  EXPECT_EQ((*labels)[1].task, (folder->path().parent_path() / "t").string());
  EXPECT_EQ((*labels)[1].Fine(Aspect::kCompile), std::optional(true));
  EXPECT_EQ((*labels)[1].Fine(Aspect::kMemory), std::optional(false));
  EXPECT_EQ((*labels)[1].Fine(Aspect::kNumerics), std::nullopt);
  ASSERT_TRUE(os::WriteFileAtomically(
      file, R"({"kernels": [{"id": "a", "kernel": "a", "task": "t", "wrong": "speed"}]})"));
  EXPECT_THAT(ReadLabels(file).error().message, HasSubstr("kernels[0].wrong"));
}

TEST(ReadVariants, ReadsFilesByName) {
  auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const auto write = [&](const char* name, const char* text) {
    ASSERT_TRUE(os::WriteFileAtomically(folder->path() / name, text));
  };
  EXPECT_FALSE(ReadVariants(folder->path()));
  write("memory.md", "mine");
  write("memory.short.md", "short");
  const auto variants = ReadVariants(folder->path());
  ASSERT_TRUE(variants) << variants.error().message;
  EXPECT_EQ((*variants)[0].size(), 1u);
  ASSERT_EQ((*variants)[1].size(), 2u);
  EXPECT_EQ((*variants)[1][0].text, "mine");
  EXPECT_EQ((*variants)[1][1].name, "short");
  write("speed.md", "none");
  EXPECT_FALSE(ReadVariants(folder->path()));
}

}  // namespace
}  // namespace cupel::review
