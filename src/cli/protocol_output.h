// The standard output for a protocol alone. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "os/fd.h"

namespace cupel::cli {

/// What the standard output was; whatever else in this process prints, prints to the standard error
/// from now on.
inline os::Fd TakeOutput() {
  os::Fd output(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (output) dup2(STDERR_FILENO, STDOUT_FILENO);
  return output;
}

}  // namespace cupel::cli
