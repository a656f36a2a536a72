// What a run in a field notes of the comparisons of floats: its elements have no order, so a proof
// holds only for inputs that compare in the same way (docs/proof.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "emu/shadow/shadow.h"
#include "engine/run.h"

namespace cupel::emu {

/// Notes how a and b compare in these lanes, for the current op.
void NoteDecisions(const WarpShadow& ws, uint32_t lanes, const double* a, const double* b);
/// All that was noted of a kernel.
std::vector<engine::Decision> DecisionsOf(const ShadowCode& code);

}  // namespace cupel::emu
