// Reserves standard output for a protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "os/fd.h"

namespace cupel::cli {

/// Returns the original standard output. From then on everything else in this process that prints
/// to standard output prints to standard error.
inline os::Fd TakeOutput() {
  os::Fd output(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (output) dup2(STDERR_FILENO, STDOUT_FILENO);
  return output;
}

}  // namespace cupel::cli
