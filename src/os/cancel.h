// Cancellation as something that poll(2) can wait for, beside a child's pipes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::os {

/// Readable once RequestCancel() was called. Owned by the process; -1 when none could be made.
int CancelFd();
bool CancelRequested();

}  // namespace cupel::os
