// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox_json.h"

#include <utility>

#include "base/json.h"

namespace cupel::os {
namespace {

constexpr std::pair<const char*, bool SandboxReport::*> kParts[] = {
    {"user_namespace", &SandboxReport::user_namespace},
    {"mount_namespace", &SandboxReport::mount_namespace},
    {"pid_namespace", &SandboxReport::pid_namespace},
    {"network_namespace", &SandboxReport::network_namespace},
    {"landlock", &SandboxReport::landlock},
    {"seccomp", &SandboxReport::seccomp}};

}  // namespace

Json ToJson(const SandboxReport& report) {
  Json json{{"enough", report.IsEnough()}};
  for (const auto& [name, part] : kParts) json[name] = report.*part;
  json["landlock_abi"] = report.landlock_abi;
  json["missing"] = report.missing;
  return json;
}

Result<SandboxReport> SandboxReportFromJson(const Json& json, std::string_view what) {
  SandboxReport report;
  for (const auto& [name, part] : kParts) {
    TRY_ASSIGN(report.*part, JsonBool(json, name, what));
  }
  TRY_ASSIGN(const int64_t abi, JsonInt(json, "landlock_abi", what));
  report.landlock_abi = static_cast<int>(abi);
  TRY_ASSIGN(const Json* missing, JsonArray(json, "missing", what));
  for (const Json& item : *missing) {
    if (!item.is_string()) {
      return Fail(ErrorCode::kInvalidArgument,
                  std::string(what) + ".missing must contain strings only");
    }
    report.missing.push_back(item.get<std::string>());
  }
  return report;
}

}  // namespace cupel::os
