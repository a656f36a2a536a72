// The record of a verdict as evidence: its digest, the parts that `cupel verify` needs to ask
// again, and what a second verdict says otherwise. Records come from outside: everything is
// checked. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "judge/other_inputs.h"
#include "judge/provenance.h"

namespace cupel::judge {

/// SHA-256 over everything but "timing", "digest" and "signatures", in one serialisation: compact
/// JSON with sorted keys.
std::string RecordDigest(const Json& record);

/// Adds the member "digest".
void Seal(Json& record);

/// A record that was read.
struct Record {
  Json json;
  std::string digest, computed_digest;  // as it says, and as it should
  bool is_canonical = false;            // written as cupel writes it, byte for byte
  std::string verdict, task, direction, kernel, source_hash, task_hash, seed_origin;
  std::string cupel_version, toolkit, torch_version;
  uint64_t seed = 0;
  Provenance provenance;                               // without sandbox and environment
  std::map<std::string, std::vector<UsedCase>> cases;  // by setting
};

/// `what` names the text in messages.
Result<Record> ReadRecord(std::string_view text, std::string_view what);

/// What a verdict rests on beside the kernel, the task and what was asked.
struct Basis {
  std::string image_key, ptx_hash;  // of the image; two compilations differ in paths alone
  std::string program_hash, shim_hash, oracle_hash;  // of cupel
  std::string device;                                // "gpu (h200)"
  std::string torch_version;  // that computes truth; empty: not known here, and not compared
};

/// True where to judge again would tell nothing new of an accepted kernel: the record is whole, and
/// rests on the same.
bool StillStands(const Json& record, const Basis& now);

struct Difference {
  std::string where;  // "settings[0].trials[2].ok"
  std::string then, now;
};

/// Where a repetition says otherwise. Exactly: every number of the verdict, but not who made it,
/// where and when. Otherwise, for engines that are not the same each time: the decision, the codes
/// of the reasons, and the bounds. At most 100.
std::vector<Difference> CompareRecords(const Json& then, const Json& now, bool exactly);

}  // namespace cupel::judge
