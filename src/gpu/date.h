// The date that a kernel sees. A GPU's own clock tells it, so code could behave until a day and
// otherwise afterwards; where a kernel reads that clock, its checked runs see a date of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cupel::gpu {

/// A variable of 8 bytes: nanoseconds that are added to the clock.
inline constexpr const char* kDateVariable = "cupel_date_shift";

bool ReadsDate(std::string_view ptx);

/// `ptx` with kDateVariable, and with its value added wherever %globaltimer is read. What is
/// written in a way that compilers do not write comes out as PTX that does not compile.
std::string WithShiftedDate(const std::string& ptx);

/// Nanoseconds between thirty years back and sixty years ahead.
int64_t DrawDateShift(uint64_t seed);

}  // namespace cupel::gpu
