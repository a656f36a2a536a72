// Run() that another thread can end early.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string_view>

#include "os/process.h"

namespace cupel::os {

/// As Run; once `stop` is set, the child is killed as if its deadline had come (within 50 ms).
Result<RunResult> RunUntil(const std::atomic<bool>& stop, SpawnOptions options,
                           std::chrono::milliseconds deadline, size_t max_output = 4u << 20,
                           std::string_view input = {});

}  // namespace cupel::os
