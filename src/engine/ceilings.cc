// SPDX-License-Identifier: Apache-2.0
#include "engine/ceilings.h"

#include <cmath>
#include <utility>

#include "base/json.h"

namespace cupel::engine {

Json ToJson(const Ceilings& ceilings) {
  return {{"gpu", ceilings.gpu},
          {"read_bytes", ceilings.read_bytes},
          {"copy_bytes", ceilings.copy_bytes},
          {"fp32_flops", ceilings.fp32_flops},
          {"tf32_flops", ceilings.tf32_flops},
          {"bf16_flops", ceilings.bf16_flops},
          {"launch_us", ceilings.launch_us}};
}

Result<Ceilings> CeilingsFromJson(const Json& json) {
  constexpr const char* kWhere = "ceilings";
  Ceilings ceilings;
  TRY_ASSIGN(ceilings.gpu, JsonString(json, "gpu", kWhere));
  const std::pair<const char*, double*> rates[] = {
      {"read_bytes", &ceilings.read_bytes}, {"copy_bytes", &ceilings.copy_bytes},
      {"fp32_flops", &ceilings.fp32_flops}, {"tf32_flops", &ceilings.tf32_flops},
      {"bf16_flops", &ceilings.bf16_flops}, {"launch_us", &ceilings.launch_us}};
  for (const auto& [key, rate] : rates) {
    TRY_ASSIGN(*rate, JsonNumber(json, key, kWhere));
    if (!std::isfinite(*rate) || *rate < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  std::string("ceilings: ") + key + " is out of range");
    }
  }
  if (ceilings.read_bytes <= 0 || ceilings.copy_bytes <= 0) {
    return Fail(ErrorCode::kInvalidArgument, "ceilings: memory bandwidth must be positive");
  }
  return ceilings;
}

}  // namespace cupel::engine
