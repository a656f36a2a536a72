// `cupel doctor`.
// SPDX-License-Identifier: Apache-2.0
#include "app/doctor.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/doctor_text.h"
#include "cli/json_file.h"

namespace cupel::cli {

std::string DoctorText(const std::vector<app::MachineCheck>& checks) {
  std::string text;
  for (const app::MachineCheck& check : checks) {
    const char* mark = check.ok ? "ok" : (check.needed ? "MISSING" : "-");
    text += fmt::format("{:14} {:8} {}\n", check.name, mark, check.detail);
    if (!check.remedy.empty()) text += fmt::format("{:23} {}\n", "", check.remedy);
  }
  return text;
}

Result<int> Run(const DoctorCommand& command) {
  const std::vector<app::MachineCheck> checks = app::CheckMachine(command);
  fmt::print("{}", DoctorText(checks));
  TRY(WriteJson(command.show.json, app::ToJson(checks)));
  return app::IsBroken(checks) ? 2 : 0;
}

}  // namespace cupel::cli
