// Judges kernels for the coordinator that started this process (docs/formats/worker.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

/// Reads from standard input and writes to the descriptor `output`, until the coordinator ends.
/// The coordinator receives the progress; `remarks` only receives remarks. Errors: the worker
/// cannot judge.
Status Work(const WorkerOptions& options, int output, Events& remarks);

}  // namespace cupel::app
