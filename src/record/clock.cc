// SPDX-License-Identifier: Apache-2.0
#include "record/clock.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cupel::record {

std::chrono::nanoseconds Now(clockid_t clock) {
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void DisableTimeStampCounter() { (void)prctl(PR_SET_TSC, PR_TSC_SIGSEGV); }

}  // namespace cupel::record
