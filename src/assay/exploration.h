// Explores sizes that no setting has. Recording needs no data and takes well under a millisecond,
// so the candidate is recorded at some hundreds of sizes. Each kind of work that it requests there
// (other kernels, template instances, blocks, flags, library calls) is judged at one small size,
// and so are both sides of boundaries between them. Sizes too large to execute are only recorded;
// on the emulator the addresses of some of their blocks are checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "assay/declared.h"
#include "records/verdict.h"

namespace cupel::assay {

/// What the exploration of a candidate needs to know of its judging.
struct Explored {
  std::vector<const task::Setting*> settings;  // those at which it was judged
  Declaration declaration;                     // sizes that it does not claim are left out
  uint64_t seed = 0;
};

/// Whether a verdict's setting is a size that was explored.
bool IsExplored(const records::SettingReport& setting);

/// Adds to `verdict`, which accepts `candidate`, what was explored: a reason if it fails at a size
/// that it should handle, or at a size that the task itself lists; otherwise limits. Adds to
/// `launched` the kernels of judged calls. Error: as Assay::Judge.
Status Explore(const Candidate& candidate, const Question& question, const Parts& parts,
               const Explored& explored, records::Verdict& verdict,
               std::set<std::string>& launched);

}  // namespace cupel::assay
