// `cupel doctor`.
// SPDX-License-Identifier: Apache-2.0
#include "app/doctor.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"

namespace cupel::cli {

Result<int> Run(const DoctorCommand& command) {
  const std::vector<app::MachineCheck> checks = app::CheckMachine(command);
  for (const app::MachineCheck& check : checks) {
    const char* mark = check.ok ? "ok" : (check.needed ? "MISSING" : "-");
    fmt::print("{:14} {:8} {}\n", check.name, mark, check.detail);
    if (!check.remedy.empty()) fmt::print("{:23} {}\n", "", check.remedy);
  }
  TRY(WriteJson(command.show.json, app::ToJson(checks)));
  return app::IsBroken(checks) ? 2 : 0;
}

}  // namespace cupel::cli
