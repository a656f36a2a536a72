// Which numbers of a setting are sizes: of batches and rows, which only get_inputs takes, and of
// features, which the model takes too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "task/task.h"

namespace cupel::task {

/// A keyword and its number.
using Number = std::pair<std::string, int64_t>;
using Numbers = std::vector<Number>;

/// Numbers that only get_inputs takes, such as batch sizes, rows and heights. Names with "batch"
/// come first.
Numbers RowsOf(const Setting& setting);

/// Sizes that the model takes. Those shared with the inputs come first; then the largest first.
/// Small numbers that only the model takes are left out: they are likely kernel sizes, strides or
/// paddings.
Numbers FeaturesOf(const Setting& setting);

/// Small numbers that only the model takes: kernel sizes, strides, paddings, dilations, groups.
Numbers OptionsOf(const Setting& setting);

/// The integer of the keyword `key`, if the setting has one.
std::optional<int64_t> NumberAt(const Setting& setting, const std::string& key);
/// Replaces it wherever the setting has `key`.
void SetNumber(Setting& setting, const std::string& key, int64_t number);

}  // namespace cupel::task
