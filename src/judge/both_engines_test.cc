// SPDX-License-Identifier: Apache-2.0
#include "judge/both_engines.h"

#include <gtest/gtest.h>

#include "judge/verdict_text.h"
#include "records/digest.h"
#include "records/json.h"

namespace cupel::judge {
namespace {

using records::Decision;
using records::Verdict;

Verdict Of(const char* device, Decision decision) {
  Verdict verdict;
  verdict.task = "softmax";
  verdict.kernel_path = "kernel.cu";
  verdict.device = device;
  verdict.decision = decision;
  verdict.trials = 5;
  verdict.provenance.asked.trials = 5;
  verdict.provenance.asked.engine = std::string(device).substr(0, 3);
  if (decision == Decision::kRejected) {
    verdict.reasons.push_back(
        {"wrong_result", "values differ", "single-0 trial 0 output 0", {"single-0", 0, 0, "", 0}});
  }
  return verdict;
}

Verdict OnGpu(Decision decision) { return Of("gpu (h200)", decision); }
Verdict Emulated(Decision decision) { return Of("emu (h200)", decision); }

TEST(BothEnginesTest, AcceptsOnlyWhatBothAccept) {
  EXPECT_EQ(Combine(OnGpu(Decision::kAccepted), Emulated(Decision::kAccepted)).decision,
            Decision::kAccepted);
  for (const auto& [gpu, emulator] : {std::pair(Decision::kAccepted, Decision::kRejected),
                                      std::pair(Decision::kRejected, Decision::kAccepted),
                                      std::pair(Decision::kUnsupported, Decision::kRejected),
                                      std::pair(Decision::kRejected, Decision::kUnsupported)}) {
    const Verdict both = Combine(OnGpu(gpu), Emulated(emulator));
    EXPECT_EQ(both.decision, Decision::kRejected);
    ASSERT_FALSE(both.reasons.empty());
  }
}

TEST(BothEnginesTest, SaysWhatTheEmulatorCannotJudge) {
  Verdict emulator = Emulated(Decision::kUnsupported);
  emulator.reasons.push_back({"unsupported_instruction", "no tcgen05.mma", ""});
  const Verdict both = Combine(OnGpu(Decision::kAccepted), emulator);
  EXPECT_EQ(both.decision, Decision::kUnsupported);
  ASSERT_EQ(both.reasons.size(), 1u);
  EXPECT_NE(both.reasons[0].message.find("--engines gpu"), std::string::npos);
}

TEST(BothEnginesTest, ListsEqualReasonsOnceAndNamesTheEmulatorsOwn) {
  Verdict emulator = Emulated(Decision::kRejected);
  emulator.reasons.push_back({"race", "two warps write", "kernel.cu:31", {"", {}, {}, "", 31}});
  const Verdict both = Combine(OnGpu(Decision::kRejected), emulator);
  ASSERT_EQ(both.reasons.size(), 2u);
  EXPECT_EQ(both.reasons[0].code, "wrong_result");
  EXPECT_EQ(both.reasons[1].where, "kernel.cu:31 on the emulator");
  EXPECT_EQ(both.reasons[1].at.line, 0);
}

TEST(BothEnginesTest, KeepsTheLimitsOfBoth) {
  Verdict emulator = Emulated(Decision::kAccepted);
  emulator.notes = {"limit: a", "b"};
  emulator.exploration.recorded = 400;
  emulator.exploration.limits.push_back({"wrong_result", "wrong from rows=65536 on"});
  Verdict gpu = OnGpu(Decision::kAccepted);
  gpu.notes = {"b"};
  const Verdict both = Combine(gpu, emulator);
  EXPECT_EQ(both.notes, (std::vector<std::string>{"b", "limit: a"}));
  ASSERT_EQ(both.Limits().size(), 1u);
  EXPECT_EQ(both.Limits()[0].message, "wrong from rows=65536 on");
  const std::string text = VerdictText(both);
  EXPECT_NE(text.find("on gpu (h200) and emu (h200)"), std::string::npos) << text;
  EXPECT_NE(text.find("limit: wrong from rows=65536 on"), std::string::npos) << text;
  EXPECT_NE(text.find("recorded at 400 other sizes"), std::string::npos) << text;
}

TEST(BothEnginesTest, ARecordOfBothCanBeReadAndItsTimesDoNotCount) {
  const Verdict both = Combine(OnGpu(Decision::kAccepted), Emulated(Decision::kAccepted));
  Json record = records::ToJson(both);
  const auto read = records::ReadVerdict(record, "record", {});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->other_engines.size(), 1u);
  EXPECT_EQ(read->other_engines[0].device, "emu (h200)");
  const std::string digest = record["digest"];
  record["other_engines"][0]["timing"]["total_seconds"] = 77;
  EXPECT_EQ(records::DigestOf(record), digest);
  record["other_engines"][0]["verdict"] = "rejected";
  EXPECT_NE(records::DigestOf(record), digest);
}

TEST(BothEnginesTest, ReadersRefuseEnginesWithinEngines) {
  Verdict nested = Emulated(Decision::kAccepted);
  nested.other_engines.push_back(Emulated(Decision::kAccepted));
  Verdict both = OnGpu(Decision::kAccepted);
  both.other_engines.push_back(nested);
  EXPECT_FALSE(records::ReadVerdict(records::ToJson(both), "record", {}));
}

}  // namespace
}  // namespace cupel::judge
