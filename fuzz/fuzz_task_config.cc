// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "harness.h"
#include "task/config.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const auto config = ParseJson(input, "fuzz");
  if (!config) return;
  std::vector<task::Setting> settings;
  const auto status =
      task::AppendSettings(*config, "single_", task::SettingKind{}, "fuzz", settings);
  if (!status) CHECK(!status.error().message.empty());
}

}  // namespace cupel::fuzz
