// A verdict for people: the decision, why, where, how close to the limits, and what was not
// checked. Short if the kernel is accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "judge/verdict.h"

namespace cupel::judge {

struct TextOptions {
  bool colour = false;
  int width = 100;       // lines are wrapped here
  bool details = false;  // show the table of settings also if accepted
};

/// Whole lines. Makes text from outside printable, so that it cannot control the terminal.
std::string VerdictText(const records::Verdict& verdict, const TextOptions& options = {});

/// The error as a share of the limit: "4.2 %", "250 x" from ten times on, "exact", "not finite".
std::string ErrorShare(const records::Comparison& comparison);

}  // namespace cupel::judge
