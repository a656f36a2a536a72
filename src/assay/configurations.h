// Judges the configurations among which a program's autotuners would choose by their times: on the
// user's machine any of them may be the fastest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "assay/assay.h"
#include "record/call_recorder.h"
#include "records/verdict.h"

namespace cupel::assay {

/// A setting at which the program passed and its autotuners searched.
struct SearchedSetting {
  const task::Setting* setting = nullptr;
  records::UsedCase first;               // of its cases
  std::vector<record::Search> searches;  // those that earlier settings did not need
  bool is_first = false;                 // no other setting was recorded before
};

/// Judges each configuration that was not recorded, in one trial: one search chooses it, the others
/// choose what fits first. At most 32 in all, each at the first setting where it can be chosen.
/// Adds to `verdict`, which accepts `program`, what is wrong, or a note. Stops at the first that is
/// wrong. Error: as Assay::Judge.
Status TryConfigurations(const Candidate& program, const Question& question, const Parts& parts,
                         const std::vector<SearchedSetting>& settings, uint64_t seed,
                         records::Verdict& verdict);

}  // namespace cupel::assay
