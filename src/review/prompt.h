// The prompts for reviewers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "llm/request.h"
#include "review/review.h"

namespace cupel::review {

/// Larger sources are not reviewed: a reviewer would judge a part as if it were the whole file.
inline constexpr size_t kMaxShownSource = 256u << 10;

/// The system text has the instructions and the answer format, which are the same for all kernels
/// of a run. The message has the operation, the findings (if they are shown) and, last, the
/// neutralised source with numbered lines, each between fences that do not occur in it. So a
/// service can cache all but the source. `shown` is the neutralised source, without line numbers.
llm::Request FirstQuestion(const Subject& subject, const std::string& shown,
                           const ReviewOptions& options);

/// The next question of the conversation, after `answer`.
llm::Request Continued(llm::Request request, const std::string& answer, std::string question);

std::string ReflectQuestion(const std::vector<Aspect>& aspects);
std::string FormatQuestion(const std::string& problem, const std::vector<Aspect>& aspects);

}  // namespace cupel::review
