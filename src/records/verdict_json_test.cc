// The JSON form of verdicts: what is written is read back, and what is malformed is named.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/json.h"
#include "records/json.h"

namespace cupel::records {
namespace {

using testing::HasSubstr;

/// Every member differs from its default, so that a member that is not read back is noticed.
Verdict FullVerdict() {
  Verdict v;
  v.decision = Decision::kUnsupported;
  v.reasons = {{"out_of_bounds", "it reads", "k.cu:7", {"multi-1", 2, 1, "k.cu", 7}, "also"}};
  v.notes = {"a note"};
  v.not_checked = {"speed on a GPU"};
  v.declared = "judged only for …";
  v.task = "softmax";
  v.kernel_path = "k.cu";
  v.device = "emu (h100)";
  v.direction = task::Direction::kBackward;
  v.seed_origin = SeedOrigin::kUser;
  v.seed = ~uint64_t{0};
  v.trials = 5;
  v.source_hash = "so";
  v.image_key = "im";
  v.task_hash = "ta";
  v.toolkit = "nvcc";
  v.torch_version = "2.13";
  v.cupel_version = "1.2";
  v.flags = {"-O3"};
  v.files = {{"csrc/k.cu", std::string(64, 'a'), true}, {"k.h", std::string(64, 'b'), false}};
  v.resources = {{"_Z1k", 32, 1024, 16, 8, 4, 2}};
  v.build_seconds = 1.5;
  v.total_seconds = 2.5;
  SettingReport s;
  s.id = "heldout-3";
  s.kind = task::SettingKind::kHeldout;
  s.description = "n=7";
  s.status = SettingStatus::kRefused;
  s.reduced = "n=7 (of 70)";
  s.derived = "n=7";
  s.note = "why";
  s.problems = {{"not_run", "it does not run", ""}};
  TrialReport trial;
  trial.seed = ~uint64_t{0} - 1;
  trial.kind = "extremes";
  trial.emulated_blocks = 3;
  trial.all_blocks = 9;
  Comparison wrong;
  wrong.code = "wrong_result";
  wrong.message = "all wrong";
  wrong.pattern = "all_zero";
  wrong.rms_error = std::numeric_limits<double>::infinity();
  wrong.max_error = std::numeric_limits<double>::quiet_NaN();
  wrong.rms_limit = 0.5;
  wrong.max_limit = 4;
  wrong.wrong_count = 6;
  wrong.count = 7;
  wrong.first_wrong = {{{1, 2}, 0.25, -std::numeric_limits<double>::infinity()}};
  trial.outputs = {wrong};
  s.trials = {trial};
  s.findings = {{"shared_race",
                 Severity::kWarning,
                 "K",
                 "k.cu",
                 9,
                 {1, 2, 3},
                 {4, 5, 6},
                 "shared",
                 "two threads write",
                 11}};
  s.controls = {{"zeros", 1, "", 0.5, 64}, {"tail", 0, "too small", 0, 0}};
  s.established = {3, 2, 1, 4, 5, "s", "e", "o", "twin", {"shl"}, {}};
  s.established.outputs = {
      {"y", false, 2, 100, 90, 6, 4, 0.125, 0.5, true, {{"add at k.cu:1", 4}}}};
  s.other_inputs = {"n=2", {"zeros"}, {{"nan", "no floats"}}, {{"nan", "c", "drops NaN", "d"}}};
  s.cases = {{"zeros", 17, "n=2"}};
  LaunchCounters launch;
  launch.kernel = "K";
  launch.grid = {7, 8, 9};
  launch.block = {32, 2, 1};
  launch.warp_instructions = 1000;
  launch.global_requests = 12;
  launch.work.shared_requests = 13;
  launch.mix[static_cast<size_t>(InstructionClass::kTensor)] = 40;
  launch.bounds = {{"DRAM", 1.5}, {"issue", 1.25}};
  launch.limited_by = "registers";
  launch.estimated_us = 3;
  LineCounters line{"k.cu", 12, {}, 128};
  line.work.load_sectors = 5;
  launch.lines = {line};
  s.counters = {{launch}, 3};
  s.seconds = {1, 2, 3, 4, 5};
  v.settings = {s};
  v.exploration = {"note", 9, 3, 1, {"n=3"}, {{"illegal_launch", "cannot be launched"}}};
  Provenance& p = v.provenance;
  p.asked = {"tasks/softmax",
             {task::SettingKind::kMulti},
             5,
             true,
             true,
             2,
             true,
             true,
             true,
             true,
             true,
             {"zeros", "uniform"},
             "aten::sum",
             900,
             "emu",
             "h100",
             "sm_90",
             {"-lm"},
             {"inc"},
             {"include"}};
  v.proof = {"not proved", "single-0", "a constant"};
  p.shared_object_hash = "a";
  p.ptx_hash = "b";
  p.cubin_hash = "c";
  p.program_hash = "d";
  p.commit = "e";
  p.shim_hash = "f";
  p.oracle_hash = "g";
  p.compiler = os::SandboxReport{.landlock = true, .landlock_abi = 7, .missing = {"pid"}};
  p.host = "h";
  p.system = "i";
  p.processor = "j";
  p.cores = 2;
  p.gpu = GpuState{1980, 2619, 55, 431.5, {"power cap"}, 2};
  return v;
}

Result<Verdict> ReadStrictly(const Json& json) { return ReadVerdict(json, "v.json", {}); }

TEST(VerdictJson, IsReadBackAsWritten) {
  const Json written = ToJson(FullVerdict());
  const auto read = ReadStrictly(written);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(DumpJson(ToJson(*read), 1), DumpJson(written, 1));
  EXPECT_EQ(read->digest, written["digest"]);
  EXPECT_EQ(read->reasons[0].at.output, 1u);
  EXPECT_FALSE(read->provenance.recorder);
}

TEST(VerdictJson, NamesTheMemberThatIsMalformed) {
  const Json good = ToJson(FullVerdict());
  const auto problem = [&](const char* path, const Json& value) {
    Json json = good;
    json[Json::json_pointer(path)] = value;
    const auto read = ReadStrictly(json);
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(problem("/seed", 7), HasSubstr("v.json: seed is not a decimal 64-bit number"));
  EXPECT_THAT(problem("/seed", "-1"), HasSubstr("seed is not"));
  EXPECT_THAT(problem("/verdict", "fine"), HasSubstr("verdict is not one of accepted, rejected"));
  EXPECT_THAT(problem("/settings/0/status", Json()), HasSubstr("settings[0].status is not one of"));
  EXPECT_THAT(problem("/settings/0/trials/0/outputs/0/rms_error", "much"),
              HasSubstr("settings[0].trials[0].outputs[0].rms_error is not a number"));
  EXPECT_THAT(problem("/settings/0/findings/0/block", {1, 2}),
              HasSubstr("settings[0].findings[0].block is not a list of three integers"));
  EXPECT_THAT(problem("/settings/0/findings/0/count", -1), HasSubstr("count is out of range"));
  EXPECT_THAT(problem("/trials", 1e300), HasSubstr("trials is not an integer"));
  EXPECT_THAT(problem("/trials", int64_t{1} << 40), HasSubstr("trials is out of range"));
  EXPECT_THAT(problem("/asked/trials", 0), HasSubstr("asked has trials that are not within"));
  EXPECT_THAT(problem("/flags", "-O3"), HasSubstr("flags is not a list"));
  EXPECT_THAT(problem("/versions", 3), HasSubstr("versions is not an object"));
  EXPECT_THAT(problem("/schema", "cupel.bench/1"), HasSubstr("its schema is not cupel.verdict/1"));
  EXPECT_EQ(problem("/more", "from a later version"), "");
}

/// Removes each member of each object in turn.
void ForEachWithout(const Json& whole, const Json::json_pointer& at,
                    const std::function<void(const Json&, const std::string&)>& use) {
  const Json& here = whole[at];
  if (here.is_object()) {
    for (const auto& [name, value] : here.items()) {
      Json without = whole;
      without[at].erase(name);
      use(without, (at / name).to_string());
    }
  }
  if (!here.is_structured()) return;
  for (const auto& [name, value] : here.items()) {
    ForEachWithout(whole, here.is_array() ? at / std::stoul(name) : at / name, use);
  }
}

TEST(VerdictJson, NoMissingMemberIsTakenForAnother) {
  int optional = 0, required = 0;
  ForEachWithout(
      ToJson(FullVerdict()), Json::json_pointer(), [&](const Json& json, const auto& path) {
        const auto read = ReadStrictly(json);
        ++(read ? optional : required);
        if (!read) {
          EXPECT_THAT(read.error().message,
                      testing::AnyOf(HasSubstr(" is missing"), HasSubstr("is not an object"),
                                     HasSubstr("its schema is not")))
              << path;
        }
        EXPECT_TRUE(ReadVerdict(json, "v.json", kTolerant)) << path;
      });
  EXPECT_GT(required, 150);
  EXPECT_GT(optional, 10);
}

TEST(VerdictJson, TolerantReaderTakesWhatItCanRead) {
  Json json = ToJson(FullVerdict());
  json["settings"][0]["status"] = "excellent";
  json["settings"][0]["trials"] = 7;
  json["settings"].push_back("nothing");
  json["notes"] = Json::array({std::string(9000, 'x'), 5});
  const auto read = ReadVerdict(json, "v.json", kTolerant);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->settings.size(), 1u);
  EXPECT_EQ(read->settings[0].status, SettingStatus::kNotRun);
  EXPECT_EQ(read->settings[0].id, "heldout-3");
  EXPECT_TRUE(read->settings[0].trials.empty());
  EXPECT_LT(read->notes[0].size(), 4200u);
  json["settings"][0]["cases"][0]["seed"] = 5;
  json["flags"] = {1, "-O3", nullptr};
  json["reasons"][0]["trial"] = "first";
  json["sandbox"]["recorder"] = "none";
  const auto odd = ReadVerdict(json, "v.json", kTolerant);
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->flags, std::vector<std::string>{"-O3"}) << "malformed texts are left out";
  EXPECT_FALSE(odd->reasons[0].at.trial) << "a malformed number is none";
  EXPECT_FALSE(odd->provenance.recorder);
  for (const char* text : {"null", "[]", "3", "\"text\""}) {
    EXPECT_FALSE(ReadVerdict(*ParseJson(text, "t"), "v.json", kTolerant)) << text;
  }
}

/// Items that are larger in memory than as text, and settings with the same id.
TEST(VerdictJson, BoundsTheMemoryOfLargeLists) {
  Json json = ToJson(FullVerdict());
  json["settings"][0]["counters"]["launches"] = Json(Json::array_t(900'000, Json::object()));
  const auto strict = ReadStrictly(json);
  ASSERT_FALSE(strict);
  EXPECT_THAT(strict.error().message, HasSubstr("launches[0].kernel is missing"));
  const auto tolerant = ReadVerdict(json, "v.json", kTolerant);
  ASSERT_TRUE(tolerant);
  EXPECT_LE(tolerant->settings[0].counters.launches.size(), kTolerant.longest_list);
  const ReadOptions small{.tolerant = true, .most_bytes = 3 * sizeof(LaunchCounters)};
  const auto cut = ReadVerdict(json, "v.json", small);
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->settings.empty() || cut->settings[0].counters.launches.size() <= 3);
}

}  // namespace
}  // namespace cupel::records
