// The sizes that a candidate says it supports, in comment lines of its source:
//   // cupel:supports batch_size=64 num_features=128..1024,4096
// All conditions of a line must hold; several lines are alternatives. It is judged at the settings
// that match, and the record says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "build/image.h"
#include "judge/verdict.h"
#include "task/task.h"

namespace cupel::assay {

class Declaration {
 public:
  /// A reason when a line is malformed; `file` names it there.
  static std::variant<Declaration, judge::Reason> Parse(std::string_view source,
                                                        std::string_view file);

  /// Nothing is declared: everything is claimed.
  bool IsEmpty() const { return lines_.empty(); }
  bool Covers(const task::Setting& setting) const;
  /// "batch_size=64 or batch_size=128": as written, without what does not matter.
  std::string Text() const;
  /// The names that lines use.
  std::vector<std::string> Names() const;

 private:
  struct Condition {
    std::string name, text;                           // text: behind the '='
    std::vector<std::pair<int64_t, int64_t>> ranges;  // inclusive
    std::vector<std::string> words;                   // anything that is not an integer
    bool Holds(const task::Setting& setting) const;
  };
  static bool ParseCondition(std::string_view text, Condition& condition);

  std::vector<std::vector<Condition>> lines_;
};

/// What a candidate claims of the settings that are asked for.
struct Claim {
  std::vector<bool> covered;  // by setting
  std::string text;           // "judged only for …: 1 of 11 settings"; empty: it claims all
};

/// A reason where the declaration is malformed, names what no setting has, or leaves nothing to
/// judge. An Error where the source has changed since it was built.
Result<std::variant<Claim, judge::Reason>> ReadClaim(
    const build::Image& image, const std::vector<const task::Setting*>& settings);

}  // namespace cupel::assay
