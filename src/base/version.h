// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel {

/// Of the program; part of every record.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace cupel
