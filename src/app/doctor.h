// What this machine offers, and what to do about what is missing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "base/json.h"

namespace cupel::app {

struct MachineCheck {
  std::string name;
  bool ok = false;
  bool needed = true;  // cupel does not work without it
  std::string detail, remedy;
};

std::vector<MachineCheck> CheckMachine(const DoctorOptions& options);
/// Whether something that cupel needs is missing.
bool IsBroken(const std::vector<MachineCheck>& checks);
/// The document "cupel.doctor/1".
Json ToJson(const std::vector<MachineCheck>& checks);

}  // namespace cupel::app
