// The oracle of this installation: the installed script, and a case pool in the cache folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "oracle/oracle.h"

namespace cupel::oracle {

/// `python`, `gpu` and `threads` are as in Options. PyTorch starts only when a requested case is
/// not in the pool.
Result<std::unique_ptr<Oracle>> OpenInstalled(
    const std::string& python, const std::stop_token& stop,
    std::function<void(const std::string& stage)> progress, std::optional<TruthGpu> gpu = {},
    int threads = 0);

}  // namespace cupel::oracle
