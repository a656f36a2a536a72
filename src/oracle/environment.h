// The environment that Python children get: ours (they are the user's PyTorch), and settings of
// speed. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace cupel::oracle {

/// `threads` that PyTorch may use of the CPU, unless $CUPEL_TORCH_THREADS says so already; 0: all.
std::map<std::string, std::string> ChildEnvironment(int threads = 0);

/// How long a child may give no sign of life: `wanted`, or when that is 0 $CUPEL_ORACLE_SECONDS, or
/// 600 s.
std::chrono::seconds StepDeadline(std::chrono::seconds wanted);

}  // namespace cupel::oracle
