// What a run tried and found, as text and as JSON ("cupel.run/1"): the end of `cupel optimize`, and
// `cupel report`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "archive/archive.h"
#include "base/json.h"

namespace cupel::cli {

inline constexpr const char* kRunFile = "run.cupel";
inline constexpr const char* kBestFile = "best.cu";

/// "8.273 us (estimate)", "5.402 us", "1.186 mJ": a value of an archive's `objective_kind`.
std::string ObjectiveText(std::string_view kind, double value);

struct RunSummary {
  std::optional<archive::Candidate> best;
  std::string best_source;
  std::string text;
  Json json;
};

/// `folder` is where the run lives and its best kernel is written.
Result<RunSummary> Summarise(const archive::Archive& archive, const std::filesystem::path& folder);

}  // namespace cupel::cli
