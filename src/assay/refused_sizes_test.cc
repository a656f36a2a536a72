// SPDX-License-Identifier: Apache-2.0
#include "assay/refused_sizes.h"

#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

using task::Setting;

Setting At(Json inputs) {
  Setting setting;
  setting.id = DumpJson(inputs);
  setting.inputs = std::move(inputs);
  return setting;
}

std::string Sizes(const std::vector<Json>& right, const std::vector<Json>& refused) {
  std::vector<Setting> settings;
  for (const auto* list : {&right, &refused}) {
    for (const Json& inputs : *list) settings.push_back(At(inputs));
  }
  std::vector<const Setting*> a, b;
  for (size_t i = 0; i < settings.size(); ++i) {
    (i < right.size() ? a : b).push_back(&settings[i]);
  }
  return SupportedSizes(a, b);
}

TEST(SupportedSizes, FindsTheKeywordThatDistinguishes) {
  const auto n = [](int64_t number) { return Json{{"rows", 3}, {"n", number}}; };
  EXPECT_EQ(Sizes({n(256), n(1024)}, {n(258)}), "n=*4");
  EXPECT_EQ(Sizes({n(256), n(1024)}, {n(257)}), "n=*2");
  EXPECT_EQ(Sizes({n(64), n(100)}, {n(2048), n(4096)}), "n=1..100");
  EXPECT_EQ(Sizes({n(64), n(128)}, {n(32), n(4096)}), "n=64..128");
  EXPECT_EQ(Sizes({n(3), n(9)}, {n(5)}), "n=3,9");
  EXPECT_EQ(Sizes({n(3)}, {n(3)}), "");
  EXPECT_EQ(Sizes({Json{{"dtype", "float16"}}, Json{{"dtype", "float32"}}},
                  {Json{{"dtype", "bfloat16"}}}),
            "dtype=float16,float32");
  EXPECT_EQ(Sizes({n(3)}, {}), "");
}

TEST(NameRefusedSizes, OnlyIfTheCandidateIsRightElsewhere) {
  const Setting wide = At({{"n", 64}}), odd = At({{"n", 65}});
  records::Verdict verdict;
  verdict.decision = records::Decision::kRejected;
  verdict.reasons = {{"host_exception", "n must be even", ""}};
  verdict.settings.resize(2);
  verdict.settings[0].id = wide.id;
  verdict.settings[1].id = odd.id;
  verdict.settings[1].problems = verdict.reasons;
  records::Verdict none = verdict;
  verdict.settings[0].status = records::SettingStatus::kPassed;
  records::Verdict other = verdict;
  other.reasons.push_back({"wrong_result", "", ""});
  for (records::Verdict* one : {&verdict, &none, &other}) NameRefusedSizes(*one, {&wide, &odd});
  EXPECT_EQ(verdict.reasons[0].code, "refused_size");
  EXPECT_NE(verdict.reasons[0].message.find("n must be even"), std::string::npos);
  EXPECT_NE(verdict.reasons[0].message.find("// cupel:supports n=*2"), std::string::npos);
  EXPECT_EQ(none.reasons[0].code, "host_exception");
  EXPECT_EQ(other.reasons[0].code, "host_exception");
}

}  // namespace
}  // namespace cupel::assay
