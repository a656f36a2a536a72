// Candidates whose host code refuses some of a task's sizes and is right at the others. They may
// say so in their source (declared.h), and the reason then names the line that would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "assay/assay.h"
#include "records/verdict.h"

namespace cupel::assay {

/// "cols=*4": what distinguishes the settings in `right` from those in `refused`, in the form of a
/// declaration. Empty if no single keyword does.
std::string SupportedSizes(const std::vector<const task::Setting*>& right,
                           const std::vector<const task::Setting*>& refused);

/// If exceptions of the host code are the only reasons against `verdict`, and it is right at other
/// listed settings: gives these reasons the code refused_size and names the declaration.
void NameRefusedSizes(records::Verdict& verdict, const std::vector<const task::Setting*>& settings);

}  // namespace cupel::assay
