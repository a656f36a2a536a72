// Run() that another thread can end early.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string_view>

#include "os/process.h"

namespace cupel::os {

/// Like Run. When `stop` is set, the child is killed within 50 ms, as at its deadline.
/// `on_error_output`, if given, is called with each new part of RunResult::err.
Result<RunResult> RunUntil(const std::atomic<bool>& stop, SpawnOptions options,
                           std::chrono::milliseconds deadline, size_t max_output = 4u << 20,
                           std::string_view input = {},
                           const std::function<void(std::string_view)>& on_error_output = {});

}  // namespace cupel::os
