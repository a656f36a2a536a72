// Compares times with limits: the bytes that a task must move, and the rates that the GPU reaches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "assay/bench.h"

namespace cupel::assay {

/// Bytes of the tensors' elements that the function surely reads or writes. Counts shared storages
/// once. Of an argument that it changes, no read counts, since it may overwrite elements unread,
/// and only elements that get other bytes count as written.
double BytesToRead(const task::Case& wanted);
double BytesToWrite(const task::Case& wanted);
/// The fastest unit that may compute products for this case: that of its narrowest floating-point
/// type, because products of narrow inputs are exact there, and a narrow contract allows rounded
/// inputs. For float32, tf32 only if the task's code allows it.
records::ArithmeticUnit UnitOf(const task::Case& wanted, bool tf32);
/// Operations per second; 0: not known.
double RateOf(records::ArithmeticUnit unit, const records::Ceilings& ceilings);
/// Why a time is impossible if every byte of the inputs is read and every result written; empty if
/// it is possible. Of the results, only what does not fit into the L2 cache counts: the rest need
/// not reach memory before a kernel ends. `peak_bytes`: the memory's known bandwidth per second, or
/// 0.
std::string BelowFloor(const records::Ceilings& ceilings, double peak_bytes, double l2_bytes,
                       const records::SettingTimes& setting, const records::Timing& timing);

/// Fills in rates and the share of the roofline, and notes unusual results. Does not count writes
/// that fit in the L2, because they need not reach memory before a kernel ends.
void Assess(const records::Ceilings& ceilings, double l2_bytes,
            const records::SettingTimes& setting, records::Timing* timing);

}  // namespace cupel::assay
