// The checks of `cupel doctor` for a terminal, and for the tool of that name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/doctor.h"

namespace cupel::cli {

/// A line for each check, and its remedy.
std::string DoctorText(const std::vector<app::MachineCheck>& checks);

}  // namespace cupel::cli
