// The settings of a task folder: products of the lists in config_forward.json /
// config_backward.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "task/task.h"

namespace cupel::task {

/// Reads `<prefix>input_configs`, `<prefix>init_configs` and `<prefix>shared_configs` of `config`
/// and appends their product in robust-kbench's order: init, then input, then shared. A shared key
/// overrides the others. A missing list counts as [{}]. If all three are missing, nothing is
/// appended. Repeated combinations are skipped; an id is the position in the full product.
Status AppendSettings(const Json& config, std::string_view prefix, SettingKind kind,
                      std::string_view what, std::vector<Setting>& settings);

/// Reads task.json's "domain": {"include": [names], "exclude": [names]}.
Result<Domain> ReadDomain(const Json& domain, std::string_view what);

}  // namespace cupel::task
