// SPDX-License-Identifier: Apache-2.0
#include "evolve/lessons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kFailing =
    "#include <torch/extension.h>\n"
    "__global__ void f(float* y, int n) {\n"
    "  y[threadIdx.x + 1] = n;\n"
    "}\n";

records::Verdict Rejected() {
  records::Verdict verdict;
  verdict.decision = records::Decision::kRejected;
  verdict.kernel_path = "/somewhere/candidate-0007.cu";
  return verdict;
}

records::SettingReport Setting(const std::string& id, task::SettingKind kind,
                               const std::string& description) {
  records::SettingReport setting;
  setting.id = id;
  setting.kind = kind;
  setting.description = description;
  setting.status = records::SettingStatus::kFailed;
  return setting;
}

records::TrialReport WrongTrial(const std::string& kind) {
  records::TrialReport trial;
  trial.seed = 4242424242;
  trial.kind = kind;
  trial.outputs.resize(2);
  trial.outputs[1].code = "wrong_result";
  trial.outputs[1].message = "7 of 231 elements are wrong: column 32 of 33";
  for (int i = 0; i < 5; ++i) {
    trial.outputs[1].first_wrong.push_back({{i, 32}, 0.5 * i, 1.25});
  }
  return trial;
}

TEST(Lessons, IsEmptyForAnAcceptedKernel) {
  records::Verdict verdict;
  verdict.decision = records::Decision::kAccepted;
  EXPECT_EQ(Lessons(verdict, kFailing), "");
}

TEST(Lessons, QuotesTheLineOfAFinding) {
  records::Verdict verdict = Rejected();
  verdict.reasons = {{"out_of_bounds",
                      "writes 4 bytes past the end (output 0 + 128 bytes); block (0, 0, 0), thread "
                      "(31, 0, 0), first used at candidate.cu:2",
                      "candidate.cu:3",
                      {"single-0", {}, {}, "candidate.cu", 3},
                      "also in multi-1, multi-2"}};
  records::Finding finding;
  finding.code = "out_of_bounds";
  finding.file = "candidate.cu";
  finding.line = 3;
  verdict.settings = {Setting("single-0", task::SettingKind::kSingle, "batch_size=64")};
  verdict.settings[0].findings = {finding};
  const std::string text = Lessons(verdict, kFailing);
  EXPECT_EQ(text,
            "The judge rejected it:\n"
            "- out_of_bounds, line 3, at batch_size=64: writes 4 bytes past the end (output 0 + "
            "128 bytes); block (0, 0, 0), thread (31, 0, 0), first used at line 2\n"
            "      | y[threadIdx.x + 1] = n;\n");
}

TEST(Lessons, ShowsTheFirstValuesAtListedSizes) {
  records::Verdict verdict = Rejected();
  verdict.settings = {Setting("single-0", task::SettingKind::kSingle, "batch_size=64")};
  verdict.settings[0].trials = {WrongTrial("usual"), WrongTrial("extremes")};
  verdict.reasons = {{"wrong_result",
                      verdict.settings[0].trials[1].outputs[1].message,
                      "single-0 trial 1 (extremes) output 1",
                      {"single-0", 1, 1, "", 0},
                      ""}};
  const std::string text = Lessons(verdict, kFailing);
  EXPECT_THAT(text, HasSubstr("output 2 of 2, at batch_size=64 (a few elements are a thousand "
                              "times larger): 7 of 231 elements are wrong: column 32 of 33\n"
                              "      [0, 32]: got 0, wanted 1.25\n"));
  EXPECT_THAT(text, HasSubstr("[2, 32]: got 1, wanted 1.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("[3, 32]")));
  EXPECT_THAT(text, Not(HasSubstr("4242424242")));
}

// Shows neither held-out sizes nor numbers that reveal them: kernels could be written for these.
TEST(Lessons, HidesHeldOutSizes) {
  records::Verdict verdict = Rejected();
  verdict.settings = {
      Setting("heldout-2", task::SettingKind::kHeldout, "batch_size=7 features=33")};
  verdict.settings[0].trials = {WrongTrial("usual")};
  records::Finding finding;
  finding.code = "out_of_bounds";
  finding.file = "candidate.cu";
  finding.line = 3;
  verdict.settings[0].findings = {finding};
  verdict.reasons = {{"out_of_bounds",
                      "reads 4 bytes, 92 past the end of 924 (see candidate.cu:12)",
                      "candidate.cu:3",
                      {"heldout-2", {}, {}, "candidate.cu", 3},
                      "at sizes derived from the task's first setting (batch_size=7)"},
                     {"wrong_result",
                      verdict.settings[0].trials[0].outputs[1].message,
                      "heldout-2 trial 0 output 1",
                      {"heldout-2", 0, 1, "", 0},
                      ""}};
  const std::string text = Lessons(verdict, kFailing);
  EXPECT_EQ(text,
            "The judge rejected it:\n"
            "- out_of_bounds, line 3, at other sizes: reads 4 bytes, … past the end of … (see "
            "line 12)\n"
            "      | y[threadIdx.x + 1] = n;\n"
            "- wrong_result, output 2 of 2, at other sizes: 7 of … elements are wrong: column … of "
            "…\n");
}

TEST(Lessons, ShowsTheFirstCompilerErrors) {
  records::Verdict verdict = Rejected();
  build::BuildFailure failure;
  failure.code = "compile_error";
  failure.message = "identifier \"blockDimx\" is undefined";
  using Severity = build::Diagnostic::Severity;
  failure.diagnostics = {{Severity::kWarning, "candidate.cu", 2, "unused"},
                         {Severity::kError, "candidate.cu", 3, "expected a \";\""},
                         {Severity::kError, "/usr/local/include/cub/x.cuh", 3, "no instance"}};
  for (int i = 0; i < 9; ++i) {
    failure.diagnostics.push_back({Severity::kError, "candidate.cu", 99 + i, "another"});
  }
  const std::string text = Lessons(verdict, kFailing, &failure);
  EXPECT_TRUE(
      text.starts_with("It does not compile (compile_error):\n"
                       "- line 3: expected a \";\"\n"
                       "      | y[threadIdx.x + 1] = n;\n"
                       "- x.cuh:3: no instance\n"
                       "- line 99: another\n"))
      << text;
  EXPECT_THAT(text, Not(HasSubstr("unused")));
  EXPECT_THAT(text, Not(HasSubstr("line 102")));
  failure.code = "unsupported_operator";
  failure.message = "unsupported: framework operator at::conv2d, line 3";
  EXPECT_THAT(Lessons(verdict, kFailing, &failure), HasSubstr("at::conv2d"));
}

TEST(Lessons, IsBoundedAndPrintableForAnyVerdict) {
  records::Verdict verdict = Rejected();
  for (int i = 0; i < 20; ++i) {
    verdict.reasons.push_back({"host_exception",
                               "\x1b[2J" + std::string(100000, i < 2 ? '\xff' : 'x'),
                               "candidate.cu:99999999999999"});
  }
  std::string text = Lessons(verdict, kFailing);
  EXPECT_LE(text.size(), kMaxLessons);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("and 17 more"));
  verdict.reasons.assign(1, {"x", std::string(2000, 'a'), std::string(50000, 'b')});
  text = Lessons(verdict, std::string(1 << 20, '\n'));
  EXPECT_LE(text.size(), kMaxLessons);
}

}  // namespace
}  // namespace cupel::evolve
