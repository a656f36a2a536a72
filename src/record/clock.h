// Clocks in the recorder child: host code has none, the recorder's own is a system call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>

namespace cupel::record {

/// `clock`: CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID.
std::chrono::nanoseconds Now(clockid_t clock);

/// From here on a read of the processor's counter traps, and with it the C library's clocks that
/// are finer than a tick. Where the system does not grant it, names and instructions are all that
/// is refused (build/audit.h).
void TakeCounterAway();

}  // namespace cupel::record
