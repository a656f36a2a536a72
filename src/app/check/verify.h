// Verifies records of verdicts: checks their digests and hashes, then judges the kernels again from
// the recorded seeds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "judge/record.h"

namespace cupel::app {

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
  /// The record says that another cupel, PyTorch or toolkit made it. An edited record can say so,
  /// too. Only the decision, the codes of the reasons and the settings' statuses are confirmed, and
  /// `changes` lists other numbers.
  bool by_other_version = false;
  std::vector<judge::Difference> differences, changes;
  /// True if no check contradicts the record and the repeated verdict is the same.
  bool Holds() const;
  /// True if the hashes match, but the verdict was not repeated because there is no GPU.
  bool IsNotRepeated() const;
};

/// Verifies one of the records of `options`. Errors: also kNotFound, if its kernel or task cannot
/// be found.
Result<Verification> Verify(const VerifyOptions& options, const std::filesystem::path& record,
                            Events& events);
/// The document "cupel.verification/1" (docs/formats/verdict.md).
Json ToJson(const Verification& result);

/// The results for several records.
class Verifications {
 public:
  void Add(const std::string& record, const Result<Verification>& result);
  /// The document "cupel.verifications/1" (docs/formats/verdict.md).
  Json ToJson() const;

  int verified() const { return verified_; }
  int contradicted() const { return contradicted_; }
  int not_repeated() const { return not_repeated_; }
  int failed() const { return failed_; }  // could not be read
  size_t all() const { return records_.size(); }

 private:
  int verified_ = 0, contradicted_ = 0, not_repeated_ = 0, failed_ = 0;
  Json records_ = Json::array();
};

}  // namespace cupel::app
