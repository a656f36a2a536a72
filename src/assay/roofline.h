// What a time is held against: the bytes that a task must move, the rates that the GPU reaches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "assay/bench.h"

namespace cupel::assay {

/// Bytes of the tensors' elements, storages that several share counted once.
double BytesToRead(const task::Case& wanted);
double BytesToWrite(const task::Case& wanted);
/// True when nothing says that some elements need not be read: integer tensors may be indices.
bool ReadsEverything(const task::Case& wanted);

/// Fills in rates and the share of the roofline, names what is odd, and refuses what cannot be.
/// Writes that the L2 can hold need not reach memory before a kernel ends.
void Assess(const engine::Ceilings& ceilings, double l2_bytes, const SettingTimes& setting,
            Timing* timing);

}  // namespace cupel::assay
