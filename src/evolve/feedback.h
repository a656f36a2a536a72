// Summarises the performance of an accepted kernel on at most one page, for the prompts of later
// proposals. Also asks a model for three recommendations based on that page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "device/device.h"
#include "judge/verdict.h"
#include "llm/asker.h"
#include "plan/plan.h"

namespace cupel::evolve {

inline constexpr size_t kMaxFeedback = 4096;  // bytes

struct Profiled {
  const records::Verdict& verdict;  // accepted
  const device::Description& device;
  std::string_view source;
  std::string_view objective = {};                // "8.27 us (estimate)"; empty: unknown
  std::string_view measured = {};                 // pages of a GPU profile; replace the counts
  std::string_view remarks = {};                  // of a linter
  std::span<const archive::Sample> samples = {};  // times on a GPU, by SettingReport::id
  const plan::Plan* plan = nullptr;               // of one setting; null: unknown
  std::string_view planned_setting = {};          // SettingReport::id of `plan`
};

/// At most kMaxFeedback bytes: the times of listed settings, measured or estimated; the bottleneck
/// with its source lines, wasted work, traffic compared with the minimum, occupancy and its limit,
/// and ptxas's resources. The details describe the single setting, or the slowest one if no single
/// setting was judged.
std::string FeedbackPage(const Profiled& profiled);

/// What limits the slowest launch of the setting that the page describes: by the page of a GPU's
/// profile if there is one, otherwise by the emulator's counts.
struct Limit {
  std::string name;   // "memory bandwidth"; empty: unknown
  std::string bound;  // Hint::bound; empty: unknown
};
Limit LimitOf(const records::Verdict& verdict, std::string_view measured);

/// Asks a model for exactly three recommendations. If the answer has another form, asks once more
/// and says what is wrong. Errors: those of asking; kInvalidArgument if both answers are unusable.
Result<std::vector<std::string>> Recommend(llm::Asker& asker, std::string_view operation,
                                           std::string_view source, std::string_view feedback);

/// Reads the recommendations "1. …", "2. …", "3. …" after "RECOMMENDATIONS:". The text of error
/// kInvalidArgument can be sent to the model.
Result<std::vector<std::string>> ReadRecommendations(std::string_view answer);

}  // namespace cupel::evolve
