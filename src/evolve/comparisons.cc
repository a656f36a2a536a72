// SPDX-License-Identifier: Apache-2.0
#include "evolve/comparisons.h"

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "records/json.h"

namespace cupel::evolve {
namespace {

constexpr const char* kMeasureStage = "measure";
constexpr const char* kKept = "the record of the measure stage";

Json ToJson(const archive::Sample& sample) {
  return {{"setting", sample.setting},
          {"clock", sample.clock},
          {"subject", sample.subject},
          {"us", sample.us}};
}

Result<archive::Sample> ReadSample(const Json& json) {
  archive::Sample sample;
  TRY_ASSIGN(sample.setting, JsonString(json, "setting", kKept));
  TRY_ASSIGN(sample.clock, JsonString(json, "clock", kKept));
  TRY_ASSIGN(sample.subject, JsonString(json, "subject", kKept));
  TRY_ASSIGN(const Json* times, JsonArray(json, "us", kKept));
  for (const Json& us : *times) {
    if (!us.is_number()) return Fail(ErrorCode::kInvalidArgument, std::string(kKept) + ": no time");
    sample.us.push_back(us.get<double>());
  }
  return sample;
}

Result<KeptComparison> ReadComparison(const std::string& detail, const ComparedWith& with) {
  TRY_ASSIGN(const Json json, ParseJson(detail, kKept));
  ComparedWith then;
  TRY_ASSIGN(then.best, JsonInt(json, "best", kKept));
  TRY_ASSIGN(then.device, JsonString(json, "device", kKept));
  if (then != with) return Fail(ErrorCode::kNotFound, "another comparison");
  KeptComparison kept;
  kept.standing.is_better = true;
  TRY_ASSIGN(kept.standing.value, JsonNumber(json, "value", kKept));
  TRY_ASSIGN(const Json* samples, JsonArray(json, "samples", kKept));
  for (const Json& sample : *samples) {
    TRY_ASSIGN(archive::Sample read, ReadSample(sample));
    kept.standing.samples.push_back(std::move(read));
  }
  TRY_ASSIGN(const Json* verdict, JsonObject(json, "verdict", kKept));
  TRY_ASSIGN(kept.verdict, records::ReadVerdict(*verdict, kKept, {}));
  return kept;
}

}  // namespace

Status KeepComparison(archive::Archive& archive, int64_t candidate, const ComparedWith& with,
                      const KeptComparison& kept, double seconds) {
  Json samples = Json::array();
  for (const archive::Sample& sample : kept.standing.samples) samples.push_back(ToJson(sample));
  const Json detail{{"best", with.best},
                    {"device", with.device},
                    {"value", kept.standing.value},
                    {"samples", std::move(samples)},
                    {"verdict", records::ToJson(kept.verdict)}};
  return archive.AddStage({candidate, kMeasureStage, true, DumpJson(detail), seconds});
}

Result<std::optional<KeptComparison>> FindComparison(const archive::Archive& archive,
                                                     int64_t candidate, const ComparedWith& with) {
  TRY_ASSIGN(const std::vector<archive::Stage> stages, archive.StagesOf(candidate));
  for (const archive::Stage& stage : stages) {
    if (stage.name != kMeasureStage) continue;
    if (auto kept = ReadComparison(stage.detail, with)) return std::optional(*std::move(kept));
  }
  return std::optional<KeptComparison>();
}

}  // namespace cupel::evolve
