// The confinement's steps in the child, in the order in which they run. Async-signal-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/child.h"

namespace cupel::os {

/// In init: the file system's view and the host name.
void EnterView(ChildPlan& plan);
/// In the target: limits, user, capabilities.
void RestrictIdentity(ChildPlan& plan);
/// In the target, last: Landlock and seccomp. False when what is in force is too little for the
/// program to run.
bool RestrictCalls(ChildPlan& plan);

}  // namespace cupel::os
