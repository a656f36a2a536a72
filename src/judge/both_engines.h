// One verdict of two engines: a GPU executes the task's own sizes, and the emulator sees what a GPU
// does not (races, accesses out of bounds, unwritten memory, exact arithmetic, other sizes).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "records/verdict.h"

namespace cupel::judge {

/// The GPU's verdict, with the emulator's in it (Verdict::other_engines). Accepts only if both do.
/// If the emulator cannot judge what the GPU accepts, the decision is kUnsupported. Reasons, notes
/// and the declaration of both are kept once; reasons of the emulator alone say that they are its.
/// `not_checked` is the caller's to set.
records::Verdict Combine(records::Verdict gpu, records::Verdict emulator);

/// Whether a reason of a combined verdict is the emulator's alone. Its numbers and place are then
/// text only; the verdict in `other_engines` has the reason itself.
bool IsOfEmulator(const records::Reason& reason);

}  // namespace cupel::judge
