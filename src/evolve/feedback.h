// What is known of the speed of an accepted kernel, condensed to at most a page for whoever writes
// the next one; and a model's three recommendations drawn from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "judge/verdict.h"
#include "llm/asker.h"
#include "plan/plan.h"

namespace cupel::evolve {

inline constexpr size_t kMaxFeedback = 4096;  // bytes

struct Profiled {
  const judge::Verdict& verdict;  // accepted
  const device::Description& device;
  std::string_view source;
  std::string_view objective;             // "8.27 us (estimate)"; empty: not known
  std::string_view measured = {};         // pages of a GPU's profile; take the place of the counts
  std::string_view remarks = {};          // a linter's
  const plan::Plan* plan = nullptr;       // of one setting; null: not known
  std::string_view planned_setting = {};  // SettingReport::id of that one
};

/// At most kMaxFeedback bytes: time (of all settings; the rest is of the single one, else of the
/// one that takes longest), bottleneck in words with its lines, what wastes work, traffic against
/// what the call must move at least, occupancy and what limits it, ptxas's resources.
std::string FeedbackPage(const Profiled& profiled);

/// What a model recommends to do next, exactly three pieces of advice. An answer in another form is
/// sent back once with what is wrong with it. Errors: those of asking; kInvalidArgument where both
/// answers are unusable.
Result<std::vector<std::string>> Recommend(llm::Asker& asker, std::string_view operation,
                                           std::string_view source, std::string_view feedback);

/// The three of an answer in the form "1. …", "2. …", "3. …" behind "RECOMMENDATIONS:". Error
/// kInvalidArgument says what is wrong, fit to be given back.
Result<std::vector<std::string>> ReadRecommendations(std::string_view answer);

}  // namespace cupel::evolve
