// Gathers the provenance for a verdict's record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/assay.h"

namespace cupel::assay {

/// SHA-256 of the running program, computed once; empty if it cannot be read.
const std::string& ProgramHash();

/// The device's name in verdicts: "gpu (h200)".
std::string DeviceOf(const engine::Engine& engine);

/// `recorder`: the sandbox in which the candidate's host code ran, if it ran.
records::Provenance ProvenanceOf(const Candidate& candidate, const Question& question,
                                 const Parts& parts,
                                 const std::optional<os::SandboxReport>& recorder);

/// What the decision does not cover, although readers might expect it. `launched`: the mangled
/// names of the kernels that judged calls launched. `beside_gpu`: it is the emulator's, beside a
/// GPU's.
std::vector<std::string> NotChecked(const records::Verdict& verdict, const Question& question,
                                    const std::set<std::string>& launched, bool beside_gpu = false);

/// Adds a limit to an accepted verdict if the emulator judged smaller sizes than the task's own:
/// what is wrong only at those may be accepted.
void AddOwnSizesLimit(records::Verdict& verdict);
/// For a verdict that stands beside that of a GPU, which judged the task's own sizes.
void RemoveOwnSizesLimit(records::Verdict& verdict);

}  // namespace cupel::assay
