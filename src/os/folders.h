// cupel's own folders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"

namespace cupel::os {

/// $CUPEL_CACHE if set, else $XDG_CACHE_HOME/cupel or ~/.cache/cupel. Created with mode 0700.
Result<std::filesystem::path> CacheDir();
/// The folder of installed data (shim/, tasks/, oracle.py): $CUPEL_HOME, else found relative to the
/// program's folder.
Result<std::filesystem::path> DataDir();

}  // namespace cupel::os
