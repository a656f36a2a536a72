// The sizes that a candidate says it supports, in comment lines of its source:
//   // cupel:supports batch_size=64 num_features=128..1024,4096 height=*8
// All conditions of a line must hold; several lines are alternatives. The candidate is judged only
// at matching settings, and the record says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "build/sources.h"
#include "judge/verdict.h"
#include "task/task.h"

namespace cupel::assay {

class Declaration {
 public:
  /// Returns a reason if a line is malformed. `file` is its file name in the reason.
  static std::variant<Declaration, records::Reason> Parse(std::string_view source,
                                                          std::string_view file);

  /// True if nothing is declared: the candidate claims all sizes.
  bool IsEmpty() const { return lines_.empty(); }
  /// Adds the alternatives of another file.
  void Add(const Declaration& other) {
    lines_.insert(lines_.end(), other.lines_.begin(), other.lines_.end());
  }
  bool Covers(const task::Setting& setting) const;
  /// "batch_size=64 or batch_size=128": the declaration in one normalised line.
  std::string Text() const;
  /// The names that lines use.
  std::vector<std::string> Names() const;

 private:
  /// Multiples of `step` from `first` to `last`, both included.
  struct Range {
    int64_t first = 0, last = 0, step = 1;
  };
  struct Condition {
    std::string name, text;  // text: after the '='
    std::vector<Range> ranges;
    std::vector<std::string> words;  // anything that is not an integer
    bool Holds(const task::Setting& setting) const;
  };
  static bool ParseRange(std::string_view value, Range& range);
  static bool ParseCondition(std::string_view text, Condition& condition);

  std::vector<std::vector<Condition>> lines_;
};

/// The setting's value of a keyword; null if it has none.
const Json* ValueOf(const task::Setting& setting, const std::string& name);

/// Which of the requested settings a candidate claims.
struct Claim {
  std::vector<bool> covered;  // by setting
  std::string text;           // "judged only for …: 1 of 11 settings"; empty: it claims all
  Declaration declaration;    // empty: it claims all
};

/// The only file of a candidate. Returns an Error if it has changed since it was built.
Result<build::SourceFile> ReadBuilt(const std::filesystem::path& file,
                                    const std::string& source_hash);

/// What the files of a candidate declare together. Returns a reason if the declaration is
/// malformed, uses a name that no setting has, or leaves nothing to judge.
std::variant<Claim, records::Reason> ReadClaim(const std::vector<build::SourceFile>& files,
                                               const std::vector<const task::Setting*>& settings);

}  // namespace cupel::assay
