// One reader of hostile bytes a program: a fuzz_NAME.cc defines RunOne, and CMake builds it twice,
// with libFuzzer (CUPEL_FUZZ=ON, clang) and with the seeded mutator of smoke_main.cc, which ctest
// runs. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cupel::fuzz {

/// Gives the bytes to the reader. Errors are fine; crashes, sanitizer reports and failed CHECKs of
/// properties (what was read can be written and read again) are findings.
void RunOne(std::string_view input);

}  // namespace cupel::fuzz
