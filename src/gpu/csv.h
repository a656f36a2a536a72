// A reader of comma-separated values (RFC 4180), for what other programs print: bounded in every
// direction. SPDX-License-Identifier: Apache-2.0
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

/// Rows in order; they need not have the same number of cells. A quoted cell may hold commas, line
/// ends and doubled quotes. `what` names the text in messages; errors are kInvalidArgument.
Result<std::vector<CsvRow>> ParseCsv(std::string_view text, std::string_view what);

}  // namespace cupel::gpu
