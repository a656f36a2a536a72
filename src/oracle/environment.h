// The environment of Python children: our own environment, since they run the user's PyTorch, plus
// settings for speed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace cupel::oracle {

/// `threads`: the CPU threads that PyTorch may use, unless $CUPEL_TORCH_THREADS is set; 0: all.
std::map<std::string, std::string> ChildEnvironment(int threads = 0);

/// How many bytes of freed memory a child keeps: an eighth of the machine's `memory`, or its share
/// of that if it is limited to some threads. From 1 to 16 GiB. Workers that share a machine have
/// four threads for each of its cores together, and two children each.
uint64_t KeptBytes(uint64_t memory, int threads, size_t cores);

/// How long a child may report no progress: `wanted`; if that is 0, $CUPEL_ORACLE_SECONDS; if that
/// is not set, 600 s.
std::chrono::seconds StepDeadline(std::chrono::seconds wanted);

}  // namespace cupel::oracle
