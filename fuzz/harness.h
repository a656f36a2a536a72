// Each fuzz program tests one reader of hostile bytes. A fuzz_NAME.cc defines RunOne. CMake builds
// it with libFuzzer (CUPEL_FUZZ=ON, clang), and with the seeded mutator of smoke_main.cc, which
// ctest runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cupel::fuzz {

/// Passes the bytes to the reader. Errors are fine. Crashes, sanitizer reports and failed CHECKs of
/// properties (such as: what was read can be written and read again) are failures.
void RunOne(std::string_view input);

}  // namespace cupel::fuzz
