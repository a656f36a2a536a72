// The record of a verdict as evidence: what `cupel verify` needs to judge again, and the
// differences from a second verdict. Records come from outside, so everything in
// them is checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "records/verdict.h"

namespace cupel::judge {

/// A record that was read and checked.
struct Record {
  Json json;
  records::Verdict verdict;
  std::string computed_digest;  // from the record
  bool is_canonical = false;    // written as cupel writes it, byte for byte
};

/// `what` names the text in messages.
Result<Record> ReadRecord(std::string_view text, std::string_view what);

/// What a verdict depends on in addition to the kernel, the task and the request.
struct Basis {
  std::string image_key, ptx_hash;  // of the image; two compilations differ only in paths
  std::string program_hash, shim_hash, oracle_hash;  // of cupel
  std::string device;                                // "gpu (h200)"
  std::string torch_version;  // computes the truth; empty: not known here, so not compared
};

/// True if judging again would give nothing new: the record is intact and accepted the kernel, and
/// everything that the verdict depends on is the same.
bool IsStillValid(const Json& record, const Basis& now);

struct Difference {
  std::string where;  // "settings[0].trials[2].ok"
  std::string then, now;
};

/// How much of a record a repetition must reproduce.
enum class Extent {
  kAll,      // every number of the verdict, but not who made it, where and when
  kBounds,   // as kVerdict, and the limits: of engines that are not deterministic
  kVerdict,  // the decision, the codes of the reasons, and each setting's status: of other versions
};

/// Where a repetition differs, at most 100 places. The emulator's part of a record of both engines
/// is compared as a whole, except by kVerdict. That ignores settings that only `now` has.
std::vector<Difference> CompareRecords(const Json& then, const Json& now, Extent extent);

}  // namespace cupel::judge
