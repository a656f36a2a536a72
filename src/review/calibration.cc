// SPDX-License-Identifier: Apache-2.0
#include "review/calibration.h"

#include <fmt/format.h>

#include "os/files.h"

namespace cupel::review {
namespace {

constexpr size_t kMaxCalibration = 64u << 20;
constexpr size_t kMaxInstructions = 64u << 10;

Result<double> Within(const Json& json, const char* key, const std::string& what) {
  TRY_ASSIGN(const double value, JsonNumber(json, key, what));
  if (!(value >= 0 && value <= 1)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}.{} must be from 0 to 1", what, key),
                "give a file that cupel review calibrate has written");
  }
  return value;
}

}  // namespace

Json ToJson(const ReviewOptions& options) {
  Json weights, instructions;
  for (size_t i = 0; i < kAspects; ++i) {
    weights[Name(kAllAspects[i])] = options.weights[i];
    instructions[Name(kAllAspects[i])] = options.instructions[i];
  }
  return {{"reflect", options.reflect},
          {"threshold", options.threshold},
          {"weights", std::move(weights)},
          {"instructions", std::move(instructions)}};
}

Result<ReviewOptions> OptionsFromJson(const Json& json, const std::string& what) {
  ReviewOptions options;
  TRY_ASSIGN(options.reflect, JsonBool(json, "reflect", what));
  TRY_ASSIGN(options.threshold, Within(json, "threshold", what));
  TRY_ASSIGN(const Json* weights, JsonObject(json, "weights", what));
  TRY_ASSIGN(const Json* instructions, JsonObject(json, "instructions", what));
  for (size_t i = 0; i < kAspects; ++i) {
    const char* name = Name(kAllAspects[i]);
    TRY_ASSIGN(options.weights[i], Within(*weights, name, what + ".weights"));
    TRY_ASSIGN(options.instructions[i], JsonString(*instructions, name, what + ".instructions"));
    if (options.instructions[i].empty() || options.instructions[i].size() > kMaxInstructions) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the instructions for {} are empty or too long", what, name));
    }
  }
  return options;
}

Result<ReviewOptions> ReadCalibration(const std::filesystem::path& file) {
  const std::string what = file.string();
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxCalibration));
  TRY_ASSIGN(const Json json, ParseJson(text, what));
  TRY_ASSIGN(const std::string schema, JsonString(json, "schema", what));
  if (schema != "cupel.calibration/1") {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is not a calibration file that this version of cupel can read", what),
        "give a file that cupel review calibrate has written");
  }
  TRY_ASSIGN(const Json* options, JsonObject(json, "options", what));
  return OptionsFromJson(*options, what);
}

}  // namespace cupel::review
