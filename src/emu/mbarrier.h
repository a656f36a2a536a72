// Flags in Op::aux that the decoder and the handlers of mbarriers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

inline constexpr uint32_t kMbarrierGeneric = 1;       // its address is generic
inline constexpr uint32_t kMbarrierDrop = 2;          // arrive_drop
inline constexpr uint32_t kMbarrierComplete = 4;      // complete_tx
inline constexpr uint32_t kMbarrierParity = 8;        // waits by parity
inline constexpr uint32_t kMbarrierNoIncrement = 16;  // cp.async.mbarrier.arrive.noinc

}  // namespace cupel::emu
