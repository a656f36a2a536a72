// The oracle of this installation: its script beside the program, its pool in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "oracle/oracle.h"

namespace cupel::oracle {

/// `python`, `gpu` and `threads` as in Options. PyTorch is not started before a case is asked for
/// that is not pooled.
Result<std::unique_ptr<Oracle>> OpenInstalled(
    const std::string& python, std::function<void(const std::string& stage)> progress,
    std::optional<TruthGpu> gpu = {}, int threads = 0);

}  // namespace cupel::oracle
