// What a time is held against: the bytes that a task must move, the rates that the GPU reaches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "assay/bench.h"

namespace cupel::assay {

/// Bytes of the tensors' elements, storages that several share counted once.
double BytesToRead(const task::Case& wanted);
double BytesToWrite(const task::Case& wanted);
/// Why a time cannot be, if every byte of the inputs is read; else empty. `peak_bytes`: of the
/// memory, a second, as far as it is known.
std::string BelowFloor(const engine::Ceilings& ceilings, double peak_bytes,
                       const SettingTimes& setting, const Timing& timing);

/// Fills in rates and the share of the roofline, and names what is odd.
/// Writes that the L2 can hold need not reach memory before a kernel ends.
void Assess(const engine::Ceilings& ceilings, double l2_bytes, const SettingTimes& setting,
            Timing* timing);

}  // namespace cupel::assay
