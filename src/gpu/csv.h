// A reader of comma-separated values (RFC 4180) for the output of other programs. All sizes are
// limited.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::gpu {

inline constexpr size_t kMaxCsvBytes = 64u << 20;
inline constexpr size_t kMaxCsvCells = 2'000'000;

using CsvRow = std::vector<std::string>;

/// The rows in order. They need not have the same number of cells. A quoted cell may contain
/// commas, line ends and doubled quotes. `what` names the text in messages. Errors are
/// kInvalidArgument.
Result<std::vector<CsvRow>> ParseCsv(std::string_view text, std::string_view what);

}  // namespace cupel::gpu
