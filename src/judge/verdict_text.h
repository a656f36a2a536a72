// A verdict for people: the decision, why, where, how close, and what was not checked. Short when
// all is well. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "judge/verdict.h"

namespace cupel::judge {

struct TextOptions {
  bool colour = false;
  int width = 100;       // lines are wrapped here
  bool details = false;  // the table of settings also when accepted
};

/// Whole lines. Text from outside is made printable, so that it cannot steer the terminal.
std::string VerdictText(const Verdict& verdict, const TextOptions& options = {});

/// "4.2 %" of what is allowed, "250 x" from ten times on, "exact", "NaN".
std::string ErrorShare(const Comparison& comparison);

}  // namespace cupel::judge
