// The messages about timing between cupel and its GPU worker, as JSON (protocol.h has the others):
//
//   {"timer": [[program id, [plan, …]], …], "sets": [[[at, bytes], …], …], "results": at}
//                                                  -> {"sets": n}
//   {"take": entrant, "mode": "cold", "set": i, "count": n, "keep": bool,
//    "changes": [[argument, offset, base64], …]}      -> {"us": […], "run": {…}}
//   {"nothing": 1}                                 -> {"us": [x]}
//   {"energy": entrant, "seconds": x}              -> {"joules", "watts", "calls"}
//   {"finish": 1}                                  -> {"run": {…}} with the findings
//   {"state": 1} | {"ceilings": 1} | {"kernels": 1}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json_fwd.h"
#include "base/result.h"
#include "engine/timing.h"

namespace cupel::gpu {

Json ToJson(const engine::TakeRequest& request);
Result<engine::TakeRequest> TakeRequestFromJson(const Json& json);
Json ToJson(const engine::ClockKernels& kernels);
Result<engine::ClockKernels> ClockKernelsFromJson(const Json& json);

/// Reads times in microseconds. They must be finite and not negative, and at most `most` of them.
Result<std::vector<double>> TimesFromJson(const Json& json, size_t most);

}  // namespace cupel::gpu
