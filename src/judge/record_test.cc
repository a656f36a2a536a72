// SPDX-License-Identifier: Apache-2.0
#include "judge/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "judge/verdict.h"
#include "records/digest.h"
#include "records/json.h"

namespace cupel::judge {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// A verdict with one trial, like those of `cupel check`.
records::Verdict Made() {
  records::Verdict verdict;
  verdict.task = "linear";
  verdict.kernel_path = "k.cu";
  verdict.device = "emu (h100)";
  verdict.seed = ~uint64_t{0};
  verdict.trials = 1;
  verdict.total_seconds = 0.5;
  records::SettingReport setting;
  setting.id = "single-0";
  setting.status = records::SettingStatus::kPassed;
  records::Comparison comparison;
  comparison.ok = true;
  comparison.rms_error = 1.0 / 3;
  comparison.rms_limit = comparison.max_limit = 1;
  setting.trials.push_back({7, true, {comparison}});
  setting.cases = {{"usual", 7, ""}};
  verdict.settings.push_back(setting);
  verdict.provenance.asked.trials = 1;
  verdict.provenance.asked.engine = "emu";
  return verdict;
}

std::string Text(const Json& json) { return DumpJson(json, 2) + "\n"; }

TEST(Record, ReadsWhatWasWritten) {
  const auto record = ReadRecord(Text(records::ToJson(Decide(Made()))), "r.json");
  ASSERT_TRUE(record) << record.error().ToString();
  EXPECT_EQ(record->verdict.digest, record->computed_digest);
  EXPECT_TRUE(record->is_canonical);
  EXPECT_TRUE(record->verdict.accepted());
  EXPECT_EQ(record->verdict.seed, ~uint64_t{0});
  ASSERT_EQ(record->verdict.settings.size(), 1u);
  EXPECT_EQ(record->verdict.settings[0].cases[0].seed, 7u);
}

TEST(Record, DigestIgnoresTimesAndSignatures) {
  Json json = records::ToJson(Decide(Made()));
  const std::string digest = json["digest"];
  json["timing"]["total_seconds"] = 99;
  json["signatures"] = Json::array({"a signature"});
  EXPECT_EQ(records::DigestOf(json), digest);
  records::Verdict other = Made();
  other.total_seconds = 3;
  EXPECT_EQ(records::ToJson(Decide(other))["digest"], digest);
}

TEST(Record, DetectsEdits) {
  const Json made = records::ToJson(Decide(Made()));
  for (const auto& [member, value] : made.items()) {
    if (member == "timing" || member == "digest" || member == "schema") continue;
    Json edited = made;
    edited[member] = value.is_string() ? Json("x") : Json();
    EXPECT_NE(records::DigestOf(edited), made["digest"]) << member;
  }
  Json edited = made;
  edited["settings"][0]["trials"][0]["outputs"][0]["rms_error"] = 0.25;
  EXPECT_NE(records::DigestOf(edited), made["digest"]);
  const auto read = ReadRecord(Text(edited), "r.json");
  ASSERT_TRUE(read);
  EXPECT_NE(read->verdict.digest, read->computed_digest);
  // The same members in another order or form: the digest matches, the form does not.
  const auto written = ReadRecord(DumpJson(made, 3), "r.json");
  ASSERT_TRUE(written);
  EXPECT_EQ(written->verdict.digest, written->computed_digest);
  EXPECT_FALSE(written->is_canonical);
  // On one line, as in a suite's store and as sqlite3 prints it.
  for (const char* end : {"", "\n"}) {
    const auto line = ReadRecord(DumpJson(made) + end, "r.json");
    ASSERT_TRUE(line);
    EXPECT_TRUE(line->is_canonical);
  }
}

TEST(Record, RejectsInvalidRecords) {
  for (const char* text :
       {"", "[]", "{}", "{\"schema\": \"cupel.bench/1\"}", "{\"schema\": \"cupel.verdict/1\"}"}) {
    const auto record = ReadRecord(text, "r.json");
    ASSERT_FALSE(record) << text;
    EXPECT_THAT(record.error().message, HasSubstr("r.json"));
  }
  const Json made = records::ToJson(Decide(Made()));
  for (const auto& [member, value] : made.items()) {
    Json broken = made;
    broken.erase(member);
    const bool optional =
        member == "timing" || member == "limits" || member == "declared" || member == "exploration";
    EXPECT_EQ(ReadRecord(Text(broken), "r.json").has_value(), optional) << member;
    if (member == "limits") continue;  // follows from the settings
    broken[member] = Json::array({Json::object()});
    EXPECT_FALSE(ReadRecord(Text(broken), "r.json")) << member;
  }
}

TEST(Record, IsValidWhileItsBasisIsUnchanged) {
  records::Verdict made = Made();
  made.image_key = "key";
  made.torch_version = "2.11";
  made.provenance.program_hash = "program";
  made.provenance.shim_hash = "shim";
  made.provenance.oracle_hash = "oracle";
  made.provenance.ptx_hash = "ptx";
  made.provenance.cubin_hash = "cubin";  // contains the path of the compilation
  const Basis basis{"key", "ptx", "program", "shim", "oracle", "emu (h100)", "2.11"};
  const Json record = records::ToJson(Decide(made));
  EXPECT_TRUE(IsStillValid(record, basis));
  for (const auto member : {&Basis::image_key, &Basis::ptx_hash, &Basis::program_hash,
                            &Basis::shim_hash, &Basis::oracle_hash, &Basis::device}) {
    Basis now = basis;
    now.*member = "another";
    EXPECT_FALSE(IsStillValid(record, now)) << basis.*member;
    now.*member = "";
    EXPECT_FALSE(IsStillValid(record, now)) << basis.*member;
  }
  Basis now = basis;
  now.torch_version = "2.12";
  EXPECT_FALSE(IsStillValid(record, now));
  now.torch_version = "";
  EXPECT_TRUE(IsStillValid(record, now));
  records::Verdict nothing = made;  // nothing was built
  nothing.provenance.ptx_hash = now.ptx_hash = "";
  EXPECT_FALSE(IsStillValid(records::ToJson(Decide(nothing)), now));
  made.settings[0].trials[0].ok = made.settings[0].trials[0].outputs[0].ok = false;
  EXPECT_FALSE(IsStillValid(records::ToJson(Decide(made)), basis))
      << "only accepted kernels are timed";
  Json edited = record;
  edited["task"] = "another";
  EXPECT_FALSE(IsStillValid(edited, basis));
  EXPECT_FALSE(IsStillValid(Json::object(), basis));
}

TEST(CompareRecords, ReportsDifferingNumbers) {
  const Json then = records::ToJson(Decide(Made()));
  records::Verdict other = Made();
  other.total_seconds = 7;
  other.provenance.host = "elsewhere";
  other.kernel_path = "other/place.cu";
  EXPECT_THAT(CompareRecords(then, records::ToJson(Decide(other)), Extent::kAll), IsEmpty());
  other.settings[0].trials[0].outputs[0].rms_error = 0.333333333333333;
  const auto found = CompareRecords(then, records::ToJson(Decide(other)), Extent::kAll);
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].where, HasSubstr("settings[0]."));
  // On a GPU the order of atomics may change the last bits, but not the decision.
  EXPECT_THAT(CompareRecords(then, records::ToJson(Decide(other)), Extent::kBounds), IsEmpty());
  other.settings[0].trials[0].outputs[0].rms_limit = 2;
  EXPECT_FALSE(CompareRecords(then, records::ToJson(Decide(other)), Extent::kBounds).empty());
}

TEST(CompareRecords, ComparesVerdictsOfOtherVersions) {
  const auto differences = [](const Json& now) {
    return CompareRecords(records::ToJson(Decide(Made())), now, Extent::kVerdict);
  };
  Json now = records::ToJson(Decide(Made()));
  now["settings"][0]["trials"][0]["outputs"][0]["rms_limit"] = 2;
  now["settings"].push_back(now["settings"][0]);
  now["settings"].back()["id"] = "of a later version";
  EXPECT_THAT(differences(now), IsEmpty());
  now["settings"][0]["status"] = "failed";
  EXPECT_THAT(differences(now), SizeIs(1));
  now["settings"].erase(0);
  EXPECT_THAT(differences(now), SizeIs(1)) << "a missing setting";
  records::Verdict rejected = Made();
  rejected.settings[0].trials[0].ok = rejected.settings[0].trials[0].outputs[0].ok = false;
  EXPECT_THAT(differences(records::ToJson(Decide(rejected))), Not(IsEmpty()));
}

}  // namespace
}  // namespace cupel::judge
