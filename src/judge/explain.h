// Explains in a few words what is probably wrong with an output, if a pattern over the whole tensor
// shows it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/evidence.h"

namespace cupel::judge {

struct Explanation {
  std::string pattern;  // stable name; empty if none is clear
  std::string text;     // continues "N of M elements are wrong: "
};

/// `rms_error` is over finite pairs, from Scanner::Run. At least one element must be wrong.
Explanation Explain(const Scanner& scan, const std::vector<int64_t>& shape, double rms_error);
/// The same if no single element is wrong, but their RMS: without a place.
Explanation ExplainRms(const Scanner& scan, const std::vector<int64_t>& shape, double rms_error);

/// The output is a known function of the truth: scaled, shifted, transposed, …
std::optional<Explanation> ExplainByValue(const Evidence& evidence);

/// Zeros at negative elements of the truth, and all other elements correct. Must be tried before
/// "all_zero".
std::optional<Explanation> ExplainExtraRelu(const Evidence& evidence);

/// What all wrong elements contain: "zero", "NaN", …; empty if they differ.
struct Fill {
  std::string pattern;  // "all_zero", "all_nan", "all_infinite", "constant"
  std::string text;     // "zero"
};
std::optional<Fill> FindFill(const Evidence& evidence);

/// Which elements are wrong, as a subject: "columns 96 to 99 of 100 (…)".
struct Place {
  std::string pattern;  // "tail", "head", "only_first", "slice", "range", "every_kth", "periodic"
  std::string text;
  bool rest_is_right = false;  // the text already says that all other elements are correct
};
std::optional<Place> FindPlace(const Evidence& evidence);

/// "2 times the expected value", "1/64 of the expected value (64 is the length of axis 1)" …
std::string DescribeMultiple(double factor, const std::vector<Axis>& axes);

}  // namespace cupel::judge
