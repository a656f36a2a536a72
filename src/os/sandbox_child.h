// The confinement's steps in the child, in the order in which they run. Async-signal-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/child.h"

namespace cupel::os {

/// In init: sets up the file system view and the host name.
void EnterView(ChildPlan& plan);
/// In the target: sets limits and the user.
void RestrictIdentity(ChildPlan& plan);
/// In the target, last: drops capabilities and sets up Landlock and seccomp. False if the sandbox
/// is too weak to run the program.
bool RestrictCalls(ChildPlan& plan);

}  // namespace cupel::os
