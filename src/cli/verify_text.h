// The results of `cupel verify` as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "judge/record.h"

namespace cupel::cli {

/// One hash or version: the value in the record and the value now.
struct RecordCheck {
  std::string name, then, now;
  bool decides = false;  // a difference contradicts the record; otherwise it is only reported
  bool IsSame() const { return then == now; }
};

struct Verification {
  std::string record, verdict, kernel, task;
  std::vector<RecordCheck> checks;
  std::string repeated;          // the decision this time; empty if not repeated
  std::string why_not_repeated;  // what this machine lacks, if the files match the record
  bool exactly = true;           // compared bit for bit; otherwise only decision and bounds
  std::vector<judge::Difference> differences;
  /// True if no check contradicts the record and the repeated verdict is the same.
  bool Holds() const;
  /// True if the hashes match, but the verdict was not repeated because there is no GPU.
  bool IsNotRepeated() const;
};

std::string VerificationText(const Verification& result);
/// The text about a record that could not be read.
std::string FailedText(const std::string& record, const Error& error);
/// The document "cupel.verification/1" (docs/formats/verdict.md).
Json VerificationJson(const Verification& result);

/// The results for several records.
class Verifications {
 public:
  void Add(const std::string& record, const Result<Verification>& result);
  /// Like "12 of 37 records verified, 1 not verified, 24 not repeated".
  std::string Text() const;
  /// The document "cupel.verifications/1" (docs/formats/verdict.md).
  Json ToJson() const;
  /// The exit status: 1 if a record is contradicted, otherwise 2 if one was not repeated or not
  /// read, otherwise 0.
  int Status() const;

 private:
  int verified_ = 0, contradicted_ = 0, not_repeated_ = 0, failed_ = 0;
  Json records_ = Json::array();
};

}  // namespace cupel::cli
