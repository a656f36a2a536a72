// SPDX-License-Identifier: Apache-2.0
#include "engine/timing.h"

#include "base/json.h"

namespace cupel::engine {

Json ToJson(const GpuState& state) {
  return {{"sm_mhz", state.sm_mhz},
          {"memory_mhz", state.memory_mhz},
          {"temperature_c", state.temperature_c},
          {"power_w", state.power_w},
          {"throttled_by", state.throttled_by},
          {"processes", state.processes}};
}

}  // namespace cupel::engine
