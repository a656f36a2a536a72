// Clocks in the recorder child: host code has none; the recorder itself uses a system call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>

namespace cupel::record {

/// `clock`: CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID.
std::chrono::nanoseconds Now(clockid_t clock);

/// Afterwards, reading the processor's time-stamp counter traps. This includes the C library's
/// clocks that are finer than a tick. If the system does not allow this, only the audit of names
/// and instructions detects clocks (build/audit.h).
void DisableTimeStampCounter();

}  // namespace cupel::record
