// What a reviewer is asked. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "llm/request.h"
#include "review/review.h"

namespace cupel::review {

/// Sources beyond this are not shown: a part of one would be judged as if it were all.
inline constexpr size_t kMaxShownSource = 256u << 10;

/// Instructions and answer format as the system's text; then the operation, the findings where they
/// are shown, and the source, neutralised, its lines numbered, between fences that do not occur in
/// what they enclose. `shown` is the source as it is quoted from.
llm::Request FirstQuestion(const Subject& subject, const std::string& shown,
                           const std::string& instructions);

/// The next question of the conversation, after `answer`.
llm::Request Continued(llm::Request request, const std::string& answer, std::string question);

std::string ReflectQuestion();
std::string FormatQuestion(const std::string& problem);

}  // namespace cupel::review
