// The rates that a GPU actually reaches, as measured by an engine. Times are compared with these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel::engine {

struct Ceilings {
  std::string gpu;                        // "NVIDIA H200"
  double read_bytes = 0;                  // per second, from cold DRAM
  double copy_bytes = 0;                  // read and written together
  double fp32_flops = 0;                  // fused multiply-add
  double tf32_flops = 0, bf16_flops = 0;  // cuBLAS; 0 without it
  double launch_us = 0;                   // of a dependent launch in a graph
};

Json ToJson(const Ceilings& ceilings);
Result<Ceilings> CeilingsFromJson(const Json& json);

}  // namespace cupel::engine
