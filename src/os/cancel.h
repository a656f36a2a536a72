// Cancellation as a descriptor that poll(2) can wait for, together with a child's pipes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::os {

/// Becomes readable when RequestCancel() is called. Owned by the process. -1 if it could not be
/// created.
int CancelFd();
bool CancelRequested();

}  // namespace cupel::os
