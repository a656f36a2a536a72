// The PTX of bench/kernels/*.cu, compiled when the benchmarks were built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cupel::bench {

/// Returns the PTX of kernels/NAME.cu. Ends the program with a message if it cannot be read.
std::string ReadPtx(const std::string& name);
/// All names, sorted.
std::vector<std::string> PtxNames();

}  // namespace cupel::bench
