// Says in a few words what is probably wrong with an output, when a pattern over the whole tensor
// tells; nothing where none does. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/evidence.h"

namespace cupel::judge {

struct Explanation {
  std::string pattern;  // stable name; empty: none is clear
  std::string text;     // goes on from "N of M elements are wrong: "
};

/// `rms_error` over finite pairs as Scanner::Run found it. At least one element is wrong.
Explanation Explain(const Scanner& scan, const std::vector<int64_t>& shape, double rms_error);

/// The output is a known function of the truth: scaled, shifted, transposed, …
std::optional<Explanation> ExplainByValue(const Evidence& evidence);

/// Zeros where the truth is negative and right elsewhere. Tried before the zeros themselves are
/// blamed.
std::optional<Explanation> ExplainExtraRelu(const Evidence& evidence);

/// What the wrong elements hold when they all hold the same: "zero", "NaN", …; empty otherwise.
struct Fill {
  std::string pattern;  // "all_zero", "all_nan", "all_infinite", "constant"
  std::string text;     // "zero"
};
std::optional<Fill> WhatTheWrongHold(const Evidence& evidence);

/// Which elements are wrong, as a subject: "columns 96 to 99 of 100 (…)".
struct Place {
  std::string pattern;  // "tail", "only_first", "slice", "range", "every_kth"
  std::string text;
  bool rest_is_right = false;  // the text already says that only the others are right
};
std::optional<Place> WhereTheWrongAre(const Evidence& evidence);

/// "2 times", "1/64 of (64 is the length of axis 1)" …
std::string DescribeFactor(double factor, const std::vector<Axis>& axes);

}  // namespace cupel::judge
