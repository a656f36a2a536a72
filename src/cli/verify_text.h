// What `cupel verify` found, for people and as JSON. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "judge/record.h"

namespace cupel::cli {

/// One hash or version of the record beside what it is now.
struct RecordCheck {
  std::string name, then, now;
  bool decides = false;  // a difference contradicts the record; else it is told
  bool IsSame() const { return then == now; }
};

struct Verification {
  std::string record, verdict, kernel, task;
  std::vector<RecordCheck> checks;
  std::string repeated;  // the decision that came out this time; empty when nothing was repeated
  std::string why_not_repeated;  // where the files are the record's: what is missing here
  bool exactly = true;           // bit for bit, else the decision and the bounds
  std::vector<judge::Difference> differences;
  /// Everything that decides is the same, and so is the repeated verdict.
  bool Holds() const;
  /// The hashes are right, and nothing more was asked, for want of a GPU.
  bool IsHalf() const;
};

std::string VerificationText(const Verification& result);
/// "cupel.verification/1", docs/formats/verdict.md.
Json VerificationJson(const Verification& result);

}  // namespace cupel::cli
