// What `cupel verify` found, for people and as JSON. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
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
/// Of a record that could not be verified at all.
std::string FailedText(const std::string& record, const Error& error);
/// "cupel.verification/1", docs/formats/verdict.md.
Json VerificationJson(const Verification& result);

/// What became of several records.
class Verifications {
 public:
  void Add(const std::string& record, const Result<Verification>& result);
  /// "12 of 37 records verified, 24 not repeated, 1 not verified".
  std::string Text() const;
  /// "cupel.verifications/1", docs/formats/verdict.md.
  Json ToJson() const;
  /// Of the command: 1 when a record is contradicted, else 2 when one was not repeated or not read.
  int Status() const;

 private:
  int verified_ = 0, contradicted_ = 0, not_repeated_ = 0, failed_ = 0;
  Json records_ = Json::array();
};

}  // namespace cupel::cli
