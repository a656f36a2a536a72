// Sources as reviewers see them, and reviewers' answers. Neutralising accepts any text, keeps the
// number of lines and leaves only printable characters. Neutralising its output again adds nothing.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "harness.h"
#include "review/answer.h"
#include "review/neutral.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const std::string shown = review::Neutralised(input);
  CHECK(std::count(shown.begin(), shown.end(), '\n') ==
        std::count(input.begin(), input.end(), '\n'));
  CHECK(std::all_of(shown.begin(), shown.end(),
                    [](char c) { return c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f); }));
  CHECK(review::Neutralised(shown).size() <= shown.size());
  const auto stated = review::ReadAnswer(input);
  if (stated) {
    CHECK(stated->confidence >= 0 && stated->confidence <= 1);
    CHECK(review::FindQuote(input, *stated) >= 0);
  }
  const std::vector<review::Aspect> aspects = {review::Aspect::kMemory, review::Aspect::kNumerics};
  const auto parts = review::ReadAnswers(input, aspects);
  CHECK(!parts || parts->size() == aspects.size());
}

}  // namespace cupel::fuzz
