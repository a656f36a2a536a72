// Run() that another thread can end early.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string_view>

#include "os/process.h"

namespace cupel::os {

/// As Run; once `stop` is set, the child is killed as if its deadline had come (within 50 ms).
/// `on_error_output`, when given, hears what of RunResult::err arrives.
Result<RunResult> RunUntil(const std::atomic<bool>& stop, SpawnOptions options,
                           std::chrono::milliseconds deadline, size_t max_output = 4u << 20,
                           std::string_view input = {},
                           const std::function<void(std::string_view)>& on_error_output = {});

}  // namespace cupel::os
